# The proxy as an image: nothing but the program, its libraries and the CA roots; no shell, no root, and
# one place to write. Base images by digest are given as build arguments.
#
#   docker build -t courtesy --build-arg REVISION="$(git rev-parse HEAD)" \
#       --build-arg SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" .
#
# The program is optimised by a profile that is recorded on the way. --build-arg PROFILE=no leaves it out:
# minutes instead of a quarter of an hour, and an image that is the same each time.

ARG BUILD_IMAGE=rust:1.95-bookworm
ARG RUN_IMAGE=gcr.io/distroless/cc-debian12:nonroot

FROM ${BUILD_IMAGE} AS build
ARG PROFILE=yes
WORKDIR /build
# The same flags wherever the sources are built.
ENV CARGO_INCREMENTAL=0 \
    RUSTFLAGS="--remap-path-prefix=/build=. --remap-path-prefix=/usr/local/cargo=cargo"

# The loads of the recording, and the tool that reads its counts.
# hadolint ignore=DL3008
RUN [ "$PROFILE" = no ] || { \
        apt-get update -q \
        && apt-get install -q -y --no-install-recommends curl iproute2 nginx-light openssl python3 \
        && rm -rf /var/lib/apt/lists/* \
        && rustup component add llvm-tools; }

# The dependencies, in a layer that lasts until Cargo.lock changes. A library and a program that do
# nothing stand in for the sources. A recording builds them by other flags, so it has no use for this.
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
COPY vendor vendor
COPY crates/robots/Cargo.toml crates/robots/
COPY packaging/compile packaging/named-by packaging/
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    mkdir -p src benches crates/robots/src \
    && echo 'fn main() {}' >src/main.rs \
    && sed -n '/^\[\[bench\]\]$/{n;s|name = "\(.*\)"|benches/\1.rs|p}' Cargo.toml >benches/all \
    && xargs touch src/lib.rs crates/robots/src/lib.rs <benches/all \
    && { [ "$PROFILE" != no ] || packaging/compile --no-profile; }

COPY config config
COPY crates crates
COPY src src
COPY packaging/licences packaging/record packaging/train packaging/
COPY benches/proxy benches/proxy
COPY tests/conformance tests/conformance
# The sources may be older than their stand-ins.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    touch src/lib.rs src/main.rs crates/robots/src/lib.rs \
    && if [ "$PROFILE" = no ]; then packaging/compile --no-profile; else packaging/compile; fi \
    && packaging/licences >licences.txt \
    && mkdir -p state/clients \
    && chmod 700 state

FROM ${RUN_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
# Of the layers and the image, where the builder heeds it (BuildKit; buildah with --timestamp).
ARG SOURCE_DATE_EPOCH
LABEL org.opencontainers.image.title="courtesy" \
    org.opencontainers.image.description="A forward proxy that makes any crawler obey robots.txt" \
    org.opencontainers.image.licenses="MIT OR Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
COPY LICENSE-MIT LICENSE-APACHE /usr/share/doc/courtesy/
COPY --from=build /build/licences.txt /usr/share/doc/courtesy/licences.txt
COPY --from=build /build/target/shipped/courtesy /usr/bin/courtesy
# What clients are to trust is in a directory of its own, so that it can be shared without the key.
COPY --from=build --chown=65532:65532 /build/state /var/lib/courtesy
ENV STATE_DIRECTORY=/var/lib/courtesy
VOLUME /var/lib/courtesy
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
EXPOSE 3128
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 CMD ["/usr/bin/courtesy", "health"]
ENTRYPOINT ["/usr/bin/courtesy"]
CMD ["serve"]

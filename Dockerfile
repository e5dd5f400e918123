# The proxy as an image: nothing but the program, its libraries and the CA roots; no shell, no root, and
# one place to write. For images by digest, give them as build arguments.
#
#   docker build -t courtesy --build-arg REVISION="$(git rev-parse HEAD)" \
#       --build-arg SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" .

ARG BUILD_IMAGE=rust:1.95-bookworm
ARG RUN_IMAGE=gcr.io/distroless/cc-debian12:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /build
# The same sources make the same program, wherever they are built.
ENV CARGO_INCREMENTAL=0 \
    RUSTFLAGS="--remap-path-prefix=/build=. --remap-path-prefix=/usr/local/cargo=cargo"

# What the program depends on, in a layer that lasts until Cargo.lock or the profile changes. Without sources
# of ours a library and a program that do nothing stand in their place.
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
COPY packaging/compile packaging/named-by packaging/courtesy.profile packaging/courtesy.profdata packaging/
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    mkdir src benches \
    && echo 'fn main() {}' >src/main.rs \
    && sed -n '/^\[\[bench\]\]$/{n;s|name = "\(.*\)"|benches/\1.rs|p}' Cargo.toml >benches/all \
    && xargs touch src/lib.rs <benches/all \
    && packaging/compile

COPY config config
COPY src src
COPY packaging/licences packaging/
# They may be older than what stood in their place.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    touch src/lib.rs src/main.rs \
    && packaging/compile \
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
COPY --from=build /build/target/profiled/courtesy /usr/bin/courtesy
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

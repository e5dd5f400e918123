courtesy 0.1.0
rustc 1.95.0 (59807616e 2026-04-14)
target x86_64-unknown-linux-gnu
Cargo.lock b2078e39b0c5083b9dd288e19337e6b9ffcf604c07cd6e54de5ed52d9b834103
dependencies 0ef1ab4cb2696a6646e92a630c4fbf2d544af0c7b03b65926b1c58ed9bf8fb0f

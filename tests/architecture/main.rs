//! What the source must not become, read from its text: the layers of `src/lib.rs`, circles of
//! imports, retired words; and the pages that are held against it. A binary of its own, because it is built and
//! run in seconds, before each commit.

mod circles;
mod docs;
mod imports;
mod layers;
mod measures;
mod packages;
mod readme;
mod safety_rows;
mod source;
mod words;

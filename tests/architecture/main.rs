//! What the source must not become, read from its text: the floors of `src/lib.rs`, circles of
//! imports, retired words; and the pages that are held against it. A binary of its own, because it is built and
//! run in seconds, before each commit.

mod circles;
mod docs;
mod floors;
mod imports;
mod readme;
mod safety_rows;
mod source;
mod words;

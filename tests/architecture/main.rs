//! What the source must not become, read from its text: the floors of `src/lib.rs`, circles of
//! imports, words that have been retired. A binary of its own, for it is built and run in seconds,
//! before each commit; it needs nothing of the library.

mod circles;
mod floors;
mod imports;
mod source;

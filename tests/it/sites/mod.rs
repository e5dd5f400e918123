//! What sites send, by kind: for each a table of what is sent, what is right, and whose habit or which
//! RFC that is. `docs/reference/proxying.md` has the same for readers.

mod connections;
mod ends;
mod files;
mod heads;

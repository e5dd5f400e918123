//! The life of one request.

mod fields;
mod wire;

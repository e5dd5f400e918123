//! Futures on the heap.

use std::pin::Pin;

/// A future that is built where it stays. `Box::pin` is given one that is built already, and copies it: all the room
/// that it will ever need, of which little is filled yet.
pub fn box_future<F: Future>(build: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), build()))
}

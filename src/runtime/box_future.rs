//! Boxes futures without a copy.

use std::pin::Pin;

/// Builds a future directly on the heap. `Box::pin` takes a built one and copies it with its full
/// size, of which little is initialised yet: up to 3 KB for a request's futures.
pub fn box_future<F: Future>(build: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), build()))
}

//! A mutex whose poison is ignored.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A [`Mutex`] for data that is whole between any two statements: a panic of another holder leaves
/// nothing half done, so its poison is no reason to fail.
#[derive(Debug, Default)]
pub struct Lock<T: ?Sized>(Mutex<T>);

impl<T> Lock<T> {
    /// A lock around `value`, not held.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }
}

impl<T: ?Sized> Lock<T> {
    /// Blocks until the lock is held.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The future that an operation of an engine returns.

use std::future::{self, Future};
use std::pin::Pin;

use super::error::Error;

/// The result of an operation, to be awaited; it borrows nothing.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A result that is there already.
pub(super) fn ready<T: Send + 'static>(result: Result<T, Error>) -> Pending<T> {
    Box::pin(future::ready(result))
}

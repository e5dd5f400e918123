//! What an operation returns.

use std::future::{Future, ready};
use std::pin::Pin;

use super::error::Error;

/// The response of an engine; it borrows nothing.
pub type Response<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A response that is there already.
pub(super) fn ready_response<T: Send + 'static>(result: Result<T, Error>) -> Response<T> {
    Box::pin(ready(result))
}

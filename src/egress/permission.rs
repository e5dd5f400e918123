//! The permission of a request: the trait by which egress, after a long wait, asks its caller
//! whether the request is still permitted.

use std::pin::Pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::error::Error;

/// How old a permission may be when its request starts; an older one is checked again.
pub const PERMISSION_AGE_MAX: Duration = Duration::from_secs(1);

/// The result of [`Permission::recheck`].
pub type RecheckFuture<'a, E> = Pin<Box<dyn Future<Output = Result<(), E>> + Send + 'a>>;

/// The permission of a request, which can be checked again.
pub trait Permission: Sync {
    /// Why a request has no response: a failure of egress, or no permission any more.
    type Error: From<Error>;

    /// Decides on the request again. Called when it has waited for more than
    /// [`PERMISSION_AGE_MAX`].
    ///
    /// # Errors
    ///
    /// The request is not permitted any more.
    fn recheck(&self) -> RecheckFuture<'_, Self::Error>;

    /// Looks whether the client is still there, immediately before a start that others wait for.
    /// If it has left, the request ends, and this never returns.
    fn look_at_client(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Triggered when the proxy stops.
    fn shutdown(&self) -> &CancellationToken;
}

/// The permission of a request of the proxy itself, which needs no check.
#[derive(Debug, Default)]
pub struct AlwaysPermitted(CancellationToken);

impl Permission for AlwaysPermitted {
    type Error = Error;

    fn recheck(&self) -> RecheckFuture<'_, Error> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn look_at_client(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    fn shutdown(&self) -> &CancellationToken {
        &self.0
    }
}

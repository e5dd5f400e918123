//! A CONNECT of HTTP that is made here for a client of SOCKS5 or of a transparent listener.

use http::{HeaderMap, Method, Version, request};
use tokio::sync::oneshot;
use tracing::debug;

use crate::proxy::connection::state::body::ActiveRequest;
use crate::proxy::connection::state::connection_context::ConnectionContext;
use crate::proxy::connection::state::footprint;
use crate::proxy::connection::upgraded::{FirstBytes, PendingSocket};
use crate::proxy::instance::{CurrentProxy, Proxy};
use crate::proxy::observe::access_log::AccessEntry;
use crate::proxy::outcome::refusal::Refusal;
use crate::proxy::outcome::rejection::Rejection;

impl Proxy {
    /// Decides on a CONNECT to `authority` as [`Proxy::handle`] does, and writes its line of the
    /// access log. What follows is in the state of `context`, and takes the stream from `socket`.
    /// `headers` are those that the CONNECT of HTTP would have.
    ///
    /// # Errors
    ///
    /// Why the client is not connected.
    pub(in crate::proxy) async fn connect_synthetic(
        &self,
        authority: &str,
        headers: HeaderMap,
        socket: oneshot::Receiver<FirstBytes>,
        context: &ConnectionContext,
        current: &CurrentProxy,
    ) -> Result<(), Refusal> {
        let mut active = ActiveRequest::begin(&context.state);
        let head = connect_head(authority, headers)?;
        let mut entry = AccessEntry::of(&head, context);
        let opened = async {
            let client = self.identify(&head, context).await?;
            entry.note_user(&client);
            let bytes = footprint::of(&head, false, None);
            active.attach_permit(self.admission.admit_request(&client, bytes)?);
            let socket = PendingSocket::Channel(socket);
            self.connect(&head, socket, &client, context, current, &entry).await
        };
        match opened.await {
            Ok(response) => {
                entry.emit(context, response.status(), None);
                Ok(())
            }
            Err(refusal) => {
                let detail = match &refusal {
                    Refusal::Rejection(rejection) => rejection.detail.clone(),
                    Refusal::Denial(denial) => denial.sentence(),
                };
                let status = refusal.status();
                debug!(client = %context.client.address, status = status.as_u16(), "{detail}");
                entry.emit(context, status, Some(&refusal));
                Err(refusal)
            }
        }
    }
}

/// The head of a CONNECT of HTTP/1.1 to `authority` (RFC 9112 §3.2.3).
///
/// # Errors
///
/// `authority` is none.
pub fn connect_head(authority: &str, headers: HeaderMap) -> Result<request::Parts, Rejection> {
    let built = http::Request::builder()
        .method(Method::CONNECT)
        .uri(authority)
        .version(Version::HTTP_11)
        .body(());
    let (mut head, ()) =
        built.map_err(|_| Rejection::bad_request("the host is not valid"))?.into_parts();
    head.headers = headers;
    Ok(head)
}

//! The log line for a client that does not seem to trust the proxy's CA, with the remedy.

use std::net::IpAddr;

use tracing::warn;

use crate::types::origin::Origin;

/// A client that does not seem to trust the proxy's CA, and the origin where it showed that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distrusting {
    pub address: IpAddr,
    pub origin: Origin,
}

impl Distrusting {
    /// Logs it with the remedy; `under_run`: the clients are those of `courtesy run`, which has set
    /// the variables that most clients follow.
    pub fn log(&self, under_run: bool) {
        let Self { address: client, origin } = self;
        let remedy = remedy(under_run);
        warn!(
            %client, %origin,
            "the client closed the connection when it was sent the proxy's certificate; \
             it may not trust the proxy's CA: {remedy}"
        );
    }
}

/// What makes a client trust the proxy's certificates.
pub const fn remedy(under_run: bool) -> &'static str {
    if under_run {
        "this program takes its CAs from its own setting, not from the variables of `courtesy run`: \
         name the file in $SSL_CERT_FILE there, see `courtesy ca install-help`, or run it with --sealed, where \
         Chromium, Firefox and the system's store have the CA"
    } else {
        "see `courtesy ca install-help`, or use `courtesy run --sealed`"
    }
}

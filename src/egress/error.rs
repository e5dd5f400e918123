//! What can go wrong on the way to an origin, in the words of RFC 9209 §2.3.

/// The kind of trouble. Each is one proxy error type of RFC 9209 §2.3 ([`Failure::proxy_error`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The name does not exist, or the resolver failed.
    Dns,
    DnsTimeout,
    /// The destination is this proxy itself.
    Loop,
    /// Every address of the host is refused by the egress policy.
    AddressProhibited,
    /// The operator's lists of hosts close this one.
    HostProhibited,
    /// No route to any permitted address.
    Unroutable,
    ConnectionRefused,
    ConnectionTimeout,
    /// Closed or reset before an answer came.
    ConnectionTerminated,
    /// The body of the request broke off, or its framing did: the client's doing.
    RequestIncomplete,
    /// The body of the request did not come in time: the client's doing.
    RequestTimeout,
    /// The bound on connections to this origin was reached and none came free in time.
    ConnectionLimit,
    TlsCertificate,
    TlsProtocol,
    /// Not HTTP, or ambiguous framing.
    Protocol,
    /// The head of the answer exceeds the bound.
    HeaderTooLarge,
    /// The answer ended before it was complete.
    Incomplete,
    /// The origin took too long to answer.
    ResponseTimeout,
}

impl Failure {
    /// Whether the side that failed is the client's, so that nothing was learnt of the origin.
    pub const fn is_clients(self) -> bool {
        matches!(self, Self::RequestIncomplete | Self::RequestTimeout)
    }

    /// Whether the operator's word closes the way: a denial, and no failure of anybody.
    pub const fn is_prohibition(self) -> bool {
        matches!(self, Self::AddressProhibited | Self::HostProhibited)
    }

    /// The proxy error type of RFC 9209 §2.3.
    pub const fn proxy_error(self) -> &'static str {
        match self {
            Self::Dns => "dns_error",
            Self::DnsTimeout => "dns_timeout",
            Self::Loop => "proxy_loop_detected",
            Self::AddressProhibited => "destination_ip_prohibited",
            Self::HostProhibited => "http_request_denied",
            Self::Unroutable => "destination_ip_unroutable",
            Self::ConnectionRefused => "connection_refused",
            Self::ConnectionTimeout => "connection_timeout",
            Self::ConnectionTerminated => "connection_terminated",
            Self::RequestIncomplete | Self::RequestTimeout => "http_request_error",
            Self::ConnectionLimit => "connection_limit_reached",
            Self::TlsCertificate => "tls_certificate_error",
            Self::TlsProtocol => "tls_protocol_error",
            Self::Protocol => "http_protocol_error",
            Self::HeaderTooLarge => "http_response_header_section_size",
            Self::Incomplete => "http_response_incomplete",
            Self::ResponseTimeout => "http_response_timeout",
        }
    }
}

/// Trouble with one request on the way out, with the words that help.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Error {
    pub failure: Failure,
    pub detail: String,
}

impl Error {
    pub fn new(failure: Failure, detail: impl Into<String>) -> Self {
        Self { failure, detail: detail.into() }
    }
}

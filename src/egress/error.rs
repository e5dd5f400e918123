//! What can go wrong on the way to an origin, in the words of RFC 9209 §2.3.

/// The kind of trouble. Each is one proxy error type of RFC 9209 §2.3 ([`Failure::proxy_error`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The name does not exist.
    NameNotFound,
    /// The name has no address, or the resolver failed.
    Dns,
    DnsTimeout,
    /// The destination is this proxy itself.
    Loop,
    /// Every address of the host is refused by the egress policy.
    AddressProhibited,
    /// The operator's lists of hosts close this one.
    HostProhibited,
    /// A router on the way knows no route to any permitted address.
    Unroutable,
    /// This machine knows no route to any permitted address.
    NoRoute,
    /// This machine or the proxy lacks what it takes: descriptors, ports, memory, a place among the
    /// look-ups of names.
    Exhausted,
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

    /// Whether the reason is the state of the proxy or of its machine, so that nothing was learnt of the
    /// origin: it must be neither kept nor counted.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::ConnectionLimit | Self::NoRoute | Self::Exhausted)
    }

    /// Whether the operator's word closes the way: a denial, and no failure of anybody.
    pub const fn is_prohibition(self) -> bool {
        matches!(self, Self::AddressProhibited | Self::HostProhibited)
    }

    /// The proxy error types of RFC 9209 §2.3, each at the place of those that it stands for.
    pub const PROXY_ERRORS: [&str; 18] = [
        "dns_error",
        "dns_timeout",
        "proxy_loop_detected",
        "destination_ip_prohibited",
        "http_request_denied",
        "destination_ip_unroutable",
        "connection_refused",
        "connection_timeout",
        "connection_terminated",
        "http_request_error",
        "connection_limit_reached",
        "tls_certificate_error",
        "tls_protocol_error",
        "http_protocol_error",
        "http_response_header_section_size",
        "http_response_incomplete",
        "http_response_timeout",
        "proxy_internal_error",
    ];

    /// Which of them it is.
    pub const fn place(self) -> usize {
        match self {
            Self::NameNotFound | Self::Dns => 0,
            Self::DnsTimeout => 1,
            Self::Loop => 2,
            Self::AddressProhibited => 3,
            Self::HostProhibited => 4,
            Self::Unroutable | Self::NoRoute => 5,
            Self::ConnectionRefused => 6,
            Self::ConnectionTimeout => 7,
            Self::ConnectionTerminated => 8,
            Self::RequestIncomplete | Self::RequestTimeout => 9,
            Self::ConnectionLimit => 10,
            Self::TlsCertificate => 11,
            Self::TlsProtocol => 12,
            Self::Protocol => 13,
            Self::HeaderTooLarge => 14,
            Self::Incomplete => 15,
            Self::ResponseTimeout => 16,
            Self::Exhausted => 17,
        }
    }

    /// The proxy error type with the parameters that are its own: a name that does not exist is told from a resolver
    /// that failed by its `rcode` (RFC 9209 §2.3.2).
    pub const fn proxy_error_parameters(self) -> &'static str {
        match self {
            Self::NameNotFound => "dns_error; rcode=\"NXDOMAIN\"",
            other => other.proxy_error(),
        }
    }

    /// The proxy error type of RFC 9209 §2.3.
    pub const fn proxy_error(self) -> &'static str {
        Self::PROXY_ERRORS[self.place()]
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

//! The reply to a SOCKS5 request (RFC 1928 §6).

use http::StatusCode;

use super::message::VERSION;
use crate::proxy::outcome::refusal::Refusal;
use crate::proxy::outcome::rejection::Rejection;

/// The code of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Succeeded = 0,
    GeneralFailure = 1,
    /// By policy: robots.txt, the port, the address, the client.
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    CommandNotSupported = 7,
    AddressNotSupported = 8,
}

impl Reply {
    /// The reply to a request that is refused.
    pub fn to(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Denial(_) => Self::NotAllowed,
            Refusal::Rejection(rejection) => Self::to_rejected(rejection),
        }
    }

    /// By the proxy error type (RFC 9209 §2.3).
    fn to_rejected(rejection: &Rejection) -> Self {
        let error = rejection.proxy_error.split(';').next().unwrap_or_default();
        match error {
            _ if rejection.status == StatusCode::FORBIDDEN => Self::NotAllowed,
            "http_request_denied" | "destination_ip_prohibited" => Self::NotAllowed,
            "destination_ip_unroutable" => Self::NetworkUnreachable,
            "dns_error" | "dns_timeout" | "connection_timeout" => Self::HostUnreachable,
            "connection_refused" => Self::ConnectionRefused,
            _ => Self::GeneralFailure,
        }
    }

    /// As it goes on the wire. The address from which the origin is reached has no meaning for the
    /// client, and stays empty.
    pub const fn bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::RejectReason;
    use crate::egress::{Error, Failure};

    #[test]
    fn the_code_says_what_failed() {
        for (failure, expected) in [
            (Failure::NameNotFound, Reply::HostUnreachable),
            (Failure::DnsTimeout, Reply::HostUnreachable),
            (Failure::ConnectionTimeout, Reply::HostUnreachable),
            (Failure::ConnectionRefused, Reply::ConnectionRefused),
            (Failure::NoRoute, Reply::NetworkUnreachable),
            (Failure::Loop, Reply::GeneralFailure),
            (Failure::Exhausted, Reply::GeneralFailure),
        ] {
            let rejection = Rejection::origin(&Error::new(failure, "a test"));
            assert_eq!(Reply::to(&rejection.into()), expected, "{failure:?}");
        }
        for (reason, expected) in [
            (RejectReason::NoLongerUser, Reply::NotAllowed),
            (RejectReason::WrongCredentials, Reply::NotAllowed),
            (RejectReason::TooManyRequests(1), Reply::GeneralFailure),
        ] {
            assert_eq!(Reply::to(&Rejection::from(reason).into()), expected, "{reason:?}");
        }
    }
}

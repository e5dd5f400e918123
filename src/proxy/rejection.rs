//! Why a request is not forwarded: the words and how they relate.
//!
//! - A [`Refusal`] is any response of the proxy in place of the origin's: a [`Rejection`] or a
//!   [`Denial`].
//! - A [`Rejection`] is a refusal that is no denial: the client sent something wrong, a limit is
//!   reached, or something failed. It has no record. One for a limit of the client has a
//!   [`RejectReason`].
//! - A [`Denial`] is a refusal by policy. It is refused only as a [`Recorded`] one.

use std::time::Duration;

use http::StatusCode;

use super::denial::{Denial, Recorded};
use super::framing::foreign_protocol::ForeignProtocol;
use crate::audit::AUDIT_RETRY_INTERVAL;
use crate::ca::CA_REMEDY;
use crate::clients::RejectReason;
use crate::egress::{self, ParentFailure};
use crate::pace::NoTurn;
use crate::types::problem::Problem;

/// Why a request, or a connection, is refused without a decision by policy. It has no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its type, with title and remedy.
    pub(super) problem: Problem,
    pub(super) status: StatusCode,
    /// The `error` of `Proxy-Status` (RFC 9209 §2.3).
    pub(super) proxy_error: &'static str,
    pub(super) detail: String,
    /// The value of `Retry-After`.
    pub(super) retry_after: Option<Duration>,
    /// The protocol that the client speaks instead of HTTP.
    pub(super) foreign: Option<ForeignProtocol>,
    /// What the parent proxy did, if that is the reason.
    pub(super) parent: Option<Box<ParentFailure>>,
    /// Why it did not get its turn, if that is the reason.
    pub(super) no_turn: Option<Box<NoTurn>>,
}

impl Rejection {
    fn new(
        problem: Problem,
        status: StatusCode,
        proxy_error: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            problem,
            status,
            proxy_error,
            detail: detail.into(),
            retry_after: None,
            foreign: None,
            parent: None,
            no_turn: None,
        }
    }

    /// A malformed request. The connection is closed after the response: what follows may not be
    /// the request that it looks like (RFC 9112 §2.2).
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(Problem::BadRequest, StatusCode::BAD_REQUEST, "http_request_error", detail)
    }

    /// As [`Self::bad_request`], for bytes of another protocol.
    pub fn foreign(foreign: ForeignProtocol) -> Self {
        Self { foreign: Some(foreign), ..Self::bad_request(foreign.detail()) }
    }

    /// As [`Self::bad_request`], with a more specific status: 408, 414, 431.
    pub fn bad_request_as(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, ..Self::bad_request(detail) }
    }

    /// A method, scheme or expectation that the proxy does not support.
    pub fn not_served(detail: impl Into<String>) -> Self {
        Self::new(Problem::NotServed, StatusCode::NOT_IMPLEMENTED, "http_request_error", detail)
    }

    /// An expectation other than `100-continue` (RFC 9110 §10.1.1).
    pub fn expectation_failed() -> Self {
        let detail = "the only expectation served is \"100-continue\"";
        Self { status: StatusCode::EXPECTATION_FAILED, ..Self::not_served(detail) }
    }

    /// A request whose destination is this proxy, or that has passed through it before.
    pub fn looping(detail: impl Into<String>) -> Self {
        Self::new(Problem::Loop, StatusCode::BAD_GATEWAY, "proxy_loop_detected", detail)
    }

    /// A limit of the proxy or of its machine is reached.
    pub fn busy(detail: impl Into<String>) -> Self {
        let rejection = Self::new(
            Problem::Busy,
            StatusCode::SERVICE_UNAVAILABLE,
            "connection_limit_reached",
            detail,
        );
        Self { retry_after: Some(Duration::from_secs(1)), ..rejection }
    }

    /// As [`Self::busy`], for a limit of this client (RFC 6585 §4).
    fn too_many(detail: impl Into<String>, wait: Option<Duration>) -> Self {
        let rejection = Self::busy(detail);
        let retry_after = wait.or(rejection.retry_after);
        Self { status: StatusCode::TOO_MANY_REQUESTS, retry_after, ..rejection }
    }

    /// The request did not get its turn; `status` is that of one that would wait too long, and
    /// `exempted_by` has given the exemption that sets its delay.
    pub fn no_turn(no_turn: &NoTurn, status: StatusCode, exempted_by: Option<&str>) -> Self {
        let detail = no_turn.explain(exempted_by);
        let rejection = match no_turn {
            NoTurn::TooLong { .. } => {
                Self::new(Problem::Paced, status, "http_request_error", detail)
            }
            NoTurn::Held { status, .. } => {
                // The origin's own, or the one that says the same of its other ones.
                let status = match status {
                    ..500 => StatusCode::TOO_MANY_REQUESTS,
                    _ => StatusCode::SERVICE_UNAVAILABLE,
                };
                Self::new(Problem::OriginHeld, status, "destination_unavailable", detail)
            }
            NoTurn::OutsideVisitTime { .. } | NoTurn::EngineAway => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::new(Problem::OriginHeld, status, "destination_unavailable", detail)
            }
            NoTurn::Full | NoTurn::Stopping => Self::busy(detail),
        };
        let (retry_after, no_turn) = (Some(no_turn.retry_after()), Some(Box::new(*no_turn)));
        Self { retry_after, no_turn, ..rejection }
    }

    /// Records cannot be written, and nothing is served without them (`audit.on_failure`).
    pub fn audit_unavailable() -> Self {
        let rejection = Self::new(
            Problem::AuditUnavailable,
            StatusCode::SERVICE_UNAVAILABLE,
            "proxy_internal_error",
            "the audit log cannot be written, and nothing is served without it (audit.on_failure)",
        );
        Self { retry_after: Some(AUDIT_RETRY_INTERVAL), ..rejection }
    }

    /// The CA has expired or is not valid yet, so HTTPS cannot be intercepted. Sent in place of the
    /// 200: after it the client would see a failed handshake and no reason.
    pub fn ca_not_valid(invalidity: &str) -> Self {
        Self::new(
            Problem::CaNotValid,
            StatusCode::SERVICE_UNAVAILABLE,
            "proxy_configuration_error",
            format!("HTTPS cannot be intercepted: {invalidity}; {CA_REMEDY}"),
        )
    }

    /// An exchange with the origin that failed: a 502 or 504, except for an incomplete request body
    /// (the client) and exhausted resources (this machine).
    pub fn origin(error: &egress::Error) -> Self {
        use crate::egress::Failure;
        let proxy_error = error.failure.proxy_error();
        match error.failure {
            Failure::Loop => Self::looping(error.detail.clone()),
            Failure::NoTurn => error.no_turn.as_ref().map_or_else(
                || Self::busy(error.detail.clone()),
                |no_turn| Self::no_turn(no_turn, StatusCode::TOO_MANY_REQUESTS, None),
            ),
            Failure::RequestIncomplete => Self::bad_request(error.detail.clone()),
            Failure::RequestTimeout => {
                Self::bad_request_as(StatusCode::REQUEST_TIMEOUT, error.detail.clone())
            }
            Failure::ConnectionLimit | Failure::Exhausted => {
                Self { proxy_error, ..Self::busy(error.detail.clone()) }
            }
            Failure::NameNotFound => {
                let proxy_error = error.failure.proxy_error_parameters();
                Self::new(
                    Problem::HostNotFound,
                    StatusCode::BAD_GATEWAY,
                    proxy_error,
                    error.detail.clone(),
                )
            }
            Failure::DnsTimeout | Failure::ConnectionTimeout | Failure::ResponseTimeout => {
                Self::new(
                    Problem::OriginTimeout,
                    StatusCode::GATEWAY_TIMEOUT,
                    proxy_error,
                    error.detail.clone(),
                )
            }
            Failure::Parent => Self::parent(StatusCode::BAD_GATEWAY, error),
            Failure::ParentTimeout => Self::parent(StatusCode::GATEWAY_TIMEOUT, error),
            _ => Self::new(
                Problem::OriginFailed,
                StatusCode::BAD_GATEWAY,
                proxy_error,
                error.detail.clone(),
            ),
        }
    }

    /// A parent proxy that made no connection. Its 429 is passed on as one (RFC 6585 §4), with what
    /// it says of the time; nothing of that is the origin's.
    fn parent(status: StatusCode, error: &egress::Error) -> Self {
        let parent = error.parent.clone();
        let told = parent.as_ref().and_then(|it| it.status);
        let too_many = StatusCode::TOO_MANY_REQUESTS;
        let status = if told == Some(too_many.as_u16()) { too_many } else { status };
        let retry_after = parent.as_ref().and_then(|it| it.retry_after);
        let proxy_error = error.failure.proxy_error();
        let rejection = Self::new(Problem::ParentFailed, status, proxy_error, error.detail.clone());
        Self { retry_after, parent, ..rejection }
    }

    /// The status of the response.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// What happened, for the client.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Whether the request is allowed, and its time has not come.
    pub const fn is_delay(&self) -> bool {
        matches!(self.problem, Problem::Paced | Problem::OriginHeld)
    }

    /// Whether the connection is closed after the response.
    pub const fn closes(&self) -> bool {
        matches!(self.problem, Problem::BadRequest)
    }

    /// Whether the client is asked for credentials.
    pub fn challenges(&self) -> bool {
        self.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
    }
}

impl From<RejectReason> for Rejection {
    fn from(reason: RejectReason) -> Self {
        let detail = reason.to_string();
        let denied =
            |problem, status, detail| Self::new(problem, status, "http_request_denied", detail);
        match reason {
            RejectReason::NotAllowed(_) | RejectReason::NoLongerUser => {
                denied(Problem::ClientNotAllowed, StatusCode::FORBIDDEN, detail)
            }
            RejectReason::NoCredentials | RejectReason::WrongCredentials => {
                let status = StatusCode::PROXY_AUTHENTICATION_REQUIRED;
                denied(Problem::CredentialsRequired, status, detail)
            }
            RejectReason::Full(_)
            | RejectReason::Memory(_)
            | RejectReason::TooManyVerifications => Self::busy(detail),
            RejectReason::TooManyConnections(_)
            | RejectReason::TooManyRequests(_)
            | RejectReason::ClientMemory(_) => Self::too_many(detail, None),
            RejectReason::TooManyAttempts(wait) => Self::too_many(detail, Some(wait)),
        }
    }
}

/// Why a request is not forwarded: rejected, or denied by policy.
pub enum Refusal {
    Rejection(Rejection),
    Denial(Box<Recorded<Denial>>),
}

impl Refusal {
    /// The status of its response.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Rejection(rejection) => rejection.status(),
            Self::Denial(denial) => denial.status,
        }
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Self::Rejection(rejection)
    }
}

impl From<RejectReason> for Refusal {
    fn from(reason: RejectReason) -> Self {
        Self::Rejection(reason.into())
    }
}

/// Why the gate grants no permit.
#[derive(Debug)]
pub enum GateError {
    Denial(Box<Recorded<Denial>>),
    /// No decision: the destination is this proxy, so its robots.txt was not requested; or a
    /// permitted request failed in egress.
    Egress(egress::Error),
    /// Records cannot be written, and nothing is served without them (`audit.on_failure`).
    Unrecorded,
}

impl From<GateError> for Refusal {
    fn from(error: GateError) -> Self {
        match error {
            GateError::Denial(denial) => Self::Denial(denial),
            GateError::Egress(error) => Self::Rejection(Rejection::origin(&error)),
            GateError::Unrecorded => Self::Rejection(Rejection::audit_unavailable()),
        }
    }
}

//! Why a text is not a URL of an origin.

/// Why a text is not a URL of a supported origin. The message says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("the URL is not absolute: it must begin with http:// or https://")]
    NotAbsolute,
    #[error("the scheme \"{0}\" is not supported: only http and https are")]
    Scheme(String),
    #[error("the URL has no host")]
    EmptyHost,
    #[error("the URL carries user information (\"user@\"), which is not allowed (RFC 9110 §4.2.4)")]
    Userinfo,
    #[error("the port \"{0}\" is not a number from 1 to 65535")]
    Port(String),
    #[error("the host \"{0}\" is not a valid host name")]
    HostName(String),
    #[error(
        "the host \"{0}\" is an address in an unusual notation: write IPv4 as four decimal numbers"
    )]
    OddAddress(String),
    #[error("the host \"{0}\" is not a valid IPv6 address in brackets, without a zone")]
    BadAddress(String),
}

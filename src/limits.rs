//! Every bound that is not a setting, with its unit and its source. Bounds that are settings have
//! their defaults in `config/courtesy.toml`.

/// Octets of a host name without its trailing dot (RFC 1035 §2.3.4).
pub const HOST_OCTETS_MAX: usize = 253;

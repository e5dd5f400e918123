//! Parent proxies: connections to origins are made through another proxy, by CONNECT of HTTP (RFC
//! 9110 §9.3.6), in clear or inside TLS, or by SOCKS5 (RFC 1928). What a parent answers is never
//! taken for the origin's answer, and nothing falls back to a direct connection. By setting,
//! requests to `http://` origins are sent to it in absolute-form instead.

mod absolute;
mod address;
mod connect;
mod credentials;
mod failure;
mod health;
mod mode;
mod options;
mod proxy;
mod socks;
mod table;
mod target;

pub use absolute::{Forwarder, restore_origin_form};
pub use address::{ParentAddress, ParentRule, ParentScheme};
pub use credentials::{ParentCredentials, ParentCredentialsError};
pub use failure::{Fault, ParentFailure};
pub use mode::{ParentHttp, ParentResolve};
pub use proxy::{Parent, ParentStats};
pub use table::Parents;
pub use target::ParentTarget;

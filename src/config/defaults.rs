//! What holds where nothing is set.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

use http::StatusCode;

use super::address::{ADMIN_PORT, PROXY_PORT};
use super::enums::{LogFormat, LogLevel};
use super::settings::{
    Audit, Clients, Deny, Egress, Https, Knobs, Limits, Listen, Log, Robots, Store, Tls, Watch,
};
use super::values::{AdminAddress, FetchAs, Retain, RetainSize, Via};
use crate::audit::{OnFailure, Sync};
use crate::egress::Roots;
use crate::policy::mode::Mode;
use crate::policy::profile::ProfileName;
use crate::proxy::Protocol;
use crate::proxy::{HttpsMode, Mixed};
use crate::watch::Changes;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl Default for Listen {
    fn default() -> Self {
        Self {
            proxy: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PROXY_PORT))],
            admin: AdminAddress::default(),
        }
    }
}

impl Default for AdminAddress {
    fn default() -> Self {
        Self::At(SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT)))
    }
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            open: false,
            users_file: None,
            max_connections: 10_000,
            max_per_client: 5000,
            max_requests_per_client: 5000,
        }
    }
}

impl Default for Robots {
    fn default() -> Self {
        Self {
            profile: ProfileName::Rfc9309,
            mode: Mode::Enforce,
            fetch_as: FetchAs::Agent,
            contact: None,
            fetch_timeout: Duration::from_secs(10),
            busy_fetch_timeout: Duration::from_secs(2),
            max_fetches: 256,
            max_queued_fetches: 4096,
            max_waiting: 16_384,
            max_size: 500 * KIB,
            max_redirects: 5,
            cache_size: 256 * MIB,
            cache_entries: NonZeroUsize::MIN.saturating_add(999_999),
            serve_cached: true,
            spellings: None,
            knobs: Knobs::default(),
        }
    }
}

impl Default for Deny {
    fn default() -> Self {
        Self { status: StatusCode::FORBIDDEN, unreachable_status: StatusCode::FORBIDDEN }
    }
}

impl Default for Https {
    fn default() -> Self {
        Self {
            mode: HttpsMode::Intercept,
            tunnel: Vec::new(),
            mixed: Mixed::Refuse,
            ca_cert: None,
            ca_key: None,
            leaf_cache: NonZeroUsize::MIN.saturating_add(1023),
        }
    }
}

impl Default for Tls {
    fn default() -> Self {
        Self { roots: Roots::System, extra_roots: Vec::new(), insecure_origins: Vec::new() }
    }
}

impl Default for Egress {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            allow_hosts: Vec::new(),
            deny_hosts: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_mins(1),
            idle_timeout: Duration::from_secs(30),
            max_per_origin: 256,
            max_idle: 1024,
            max_lookups: 256,
            connect_ports: vec![80, 443],
            upgrades: vec![Protocol::websocket()],
            via: Via::As("courtesy".into()),
        }
    }
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            dir: None,
            sync: Sync::Batch,
            on_failure: OnFailure::Deny,
            write_timeout: Duration::from_secs(10),
            rotate_size: 128 * MIB,
            rotate_age: Duration::from_hours(24),
            retain: Retain(None),
            retain_size: RetainSize(None),
            redact_query: false,
            node: None,
        }
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self { changes: Changes::Meaning }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self { enabled: true, max_size: 1024 * MIB }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_header_bytes: 64 * KIB,
            max_headers: 100,
            strict_target: false,
            body_memory: 256 * MIB,
            header_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            body_idle_timeout: Duration::from_mins(1),
            tunnel_idle_timeout: Duration::from_mins(5),
            idle_timeout: Duration::from_mins(1),
            drain_timeout: Duration::from_secs(25),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: LogLevel::Info }
    }
}

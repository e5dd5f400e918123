//! CONNECT (RFC 9110 §9.3.6): the treatment of each is read into a value first, [`Connect`], and
//! then carried out. The CONNECT target decides, never `Host`. A refused CONNECT closes the
//! connection, so that bytes meant for the tunnel are never served as requests.

mod handler;
mod intercept;
mod preread;
pub mod redirect_kind;
pub mod sni;
pub mod sniff;
pub mod transparent;
pub mod tunnel;

use http::{Method, request};

use super::destination::Scope;
use super::rejection::Rejection;
use crate::egress::is_tls_name;
use crate::proxy::decision::rules::MixedHosts;
use crate::types::origin::{HostPattern, Origin, Scheme};
use crate::types::words::words;
pub use tunnel::TunnelEnds;

/// How a CONNECT is treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connect {
    /// Terminate TLS here, and decide on each request inside.
    Intercept(Origin),
    /// Decide on the host as a whole, and open a tunnel or refuse.
    Classify(Origin, MixedHosts),
    /// The port is not listed in `egress.connect_ports`.
    PortNotAllowed(Origin),
}

words! {
    /// How HTTPS is treated inside a CONNECT.
    #[derive(Default)]
    pub enum HttpsMode {
        #[default]
        Intercept = "intercept",
        Classify = "classify",
    }
}

/// The settings of CONNECT.
#[derive(Clone, Debug)]
pub struct Https {
    pub mode: HttpsMode,
    /// Hosts that are tunnelled in every mode: their clients pin certificates, or have their own.
    pub tunnel: Vec<HostPattern>,
    pub mixed: MixedHosts,
    pub ports: Vec<u16>,
    /// Whether the clients are those of `courtesy run`, which has set variables for them.
    pub under_run: bool,
}

impl Https {
    /// Whether a tunnel is opened to `origin`, in which no request is seen.
    pub fn tunnels(&self, origin: &Origin) -> bool {
        let is_listed = || self.tunnel.iter().any(|host| host.matches(origin.host()));
        origin.scheme() == Scheme::Https && (self.mode == HttpsMode::Classify || is_listed())
    }

    /// Reads the CONNECT in `request`. Inside a CONNECT there is none.
    pub fn connect(&self, request: &request::Parts, scope: &Scope) -> Result<Connect, Rejection> {
        debug_assert_eq!(request.method, Method::CONNECT);
        if *scope != Scope::AnyOrigin {
            return Err(Rejection::bad_request("a CONNECT inside a CONNECT is not served"));
        }
        let origin = authority(request)?;
        if !self.ports.contains(&origin.port()) {
            return Ok(Connect::PortNotAllowed(origin));
        }
        if self.tunnel.iter().any(|host| host.matches(origin.host())) {
            // A listed host is tunnelled although paths are not seen: only `Disallow: /` denies it.
            return Ok(Connect::Classify(origin, MixedHosts::Tunnel));
        }
        Ok(match self.mode {
            HttpsMode::Intercept => {
                check_tls_name(&origin)?;
                Connect::Intercept(origin)
            }
            HttpsMode::Classify => Connect::Classify(origin, self.mixed),
        })
    }
}

/// Refuses a host that no certificate could be for: after a 200 its handshake would fail without a
/// reason. Port 80 is for plain HTTP.
fn check_tls_name(origin: &Origin) -> Result<(), Rejection> {
    if origin.port() == 80 || is_tls_name(origin.host()) {
        return Ok(());
    }
    let host = origin.host();
    Err(Rejection::not_served(format!(
        "{host} cannot be reached by HTTPS: TLS has no name whose label begins or ends with a hyphen \
         (RFC 1123 §2.1)"
    )))
}

/// The target, which is host and port and nothing else (RFC 9112 §3.2.3): an empty or missing port
/// is refused (RFC 9110 §9.3.6).
fn authority(request: &request::Parts) -> Result<Origin, Rejection> {
    let uri = &request.uri;
    let authority =
        uri.authority().filter(|_| uri.scheme().is_none() && uri.path_and_query().is_none());
    let with_port = authority.filter(|authority| authority.port_u16().is_some());
    let Some(authority) = with_port else {
        return Err(Rejection::bad_request(
            "the target of CONNECT must be a host and a port, as in example.com:443",
        ));
    };
    Origin::from_authority(Scheme::Https, authority.as_str())
        .map_err(|error| Rejection::bad_request(error.to_string()))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn settings(mode: HttpsMode) -> Https {
        let tunnel = vec![HostPattern::new("*.pinned.example").unwrap()];
        Https { mode, tunnel, mixed: MixedHosts::Refuse, ports: vec![80, 443], under_run: false }
    }

    fn connect(mode: HttpsMode, target: &str) -> Result<Connect, u16> {
        let parts = Request::connect(target).body(()).unwrap().into_parts().0;
        settings(mode)
            .connect(&parts, &Scope::AnyOrigin)
            .map_err(|rejection| rejection.status().as_u16())
    }

    fn origin(authority: &str) -> Origin {
        Origin::from_authority(Scheme::Https, authority).unwrap()
    }

    #[test]
    fn host_and_mode_decide_how_a_connect_is_treated() {
        let a = || origin("example.com:443");
        assert_eq!(connect(HttpsMode::Intercept, "Example.com:443"), Ok(Connect::Intercept(a())));
        assert_eq!(
            connect(HttpsMode::Classify, "example.com:443"),
            Ok(Connect::Classify(a(), MixedHosts::Refuse))
        );
        let pinned = Connect::Classify(origin("a.pinned.example"), MixedHosts::Tunnel);
        assert_eq!(connect(HttpsMode::Intercept, "a.pinned.example:443"), Ok(pinned));
        let parent = Connect::Intercept(origin("pinned.example"));
        assert_eq!(connect(HttpsMode::Intercept, "pinned.example:443"), Ok(parent));
    }

    /// The name is refused where TLS would be terminated; plain HTTP has no such names.
    #[test]
    fn a_host_that_tls_cannot_name_is_not_intercepted() {
        for host in ["-lead.example", "trail-.example", "a.-b.example"] {
            let target = format!("{host}:443");
            assert_eq!(connect(HttpsMode::Intercept, &target), Err(501), "{target}");
            let plain = format!("{host}:80");
            let served = Connect::Intercept(origin(&plain));
            assert_eq!(connect(HttpsMode::Intercept, &plain), Ok(served));
        }
        for host in ["_a.example", "a_b.example", "4711.example", &"a".repeat(63)] {
            let target = format!("{host}:443");
            let served = Connect::Intercept(origin(&target));
            assert_eq!(connect(HttpsMode::Intercept, &target), Ok(served), "{target}");
        }
    }

    #[test]
    fn a_target_that_is_no_origin_or_has_another_port_is_refused() {
        for target in ["example.com:25", "127.0.0.1:22"] {
            let refused = Connect::PortNotAllowed(origin(target));
            assert_eq!(connect(HttpsMode::Intercept, target), Ok(refused), "{target}");
        }
        for target in ["example.com", "127.1:443", "user@example.com:443", "example.com:0"] {
            assert_eq!(connect(HttpsMode::Intercept, target), Err(400), "{target}");
        }
        let parts = Request::connect("example.com:443").body(()).unwrap().into_parts().0;
        let inside = Scope::Origin(Origin::from_authority(Scheme::Https, "example.com").unwrap());
        assert!(settings(HttpsMode::Intercept).connect(&parts, &inside).is_err());
    }
}

//! What a request asks for, as bytes that are ready to be sent.

use std::net::{SocketAddr, ToSocketAddrs as _};

use crate::args::Asking;

pub struct Target {
    /// The name for TLS, where it is spoken.
    pub tls: Option<String>,
    /// Where the connection goes: the proxy, or the origin itself.
    pub address: SocketAddr,
    /// The head of the CONNECT that comes first, if one does.
    pub connect: Option<Vec<u8>>,
    pub request: Vec<u8>,
}

/// Bounds the memory that a slip of the pen takes.
const TARGETS_MAX: u64 = 100_000;

pub fn targets(asking: &Asking) -> Result<Vec<Target>, String> {
    let mut targets = Vec::new();
    for pattern in &asking.target {
        for url in expand(pattern)? {
            targets.push(Target::new(&url, asking.proxy)?);
        }
    }
    Ok(targets)
}

/// "h{0..2}.test" is h0.test, h1.test and h2.test.
fn expand(pattern: &str) -> Result<Vec<String>, String> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return Ok(vec![pattern.to_owned()]);
    };
    let bad = || format!("not of the form {{a..b}}: {pattern}");
    let (range, after) = rest.split_once('}').ok_or_else(bad)?;
    let (first, last) = range.split_once("..").ok_or_else(bad)?;
    let first: u64 = first.parse().map_err(|_| bad())?;
    let last: u64 = last.parse().map_err(|_| bad())?;
    if last < first || last - first >= TARGETS_MAX {
        return Err(bad());
    }
    Ok((first..=last).map(|number| format!("{before}{number}{after}")).collect())
}

impl Target {
    fn new(url: &str, proxy: Option<SocketAddr>) -> Result<Self, String> {
        let (tls, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(format!("neither http:// nor https://: {url}")),
        };
        let (authority, path) = rest.split_at(rest.find('/').ok_or_else(|| format!("no path: {url}"))?);
        let (host, _) = authority.rsplit_once(':').ok_or_else(|| format!("no port: {url}"))?;
        let form = if proxy.is_some() && !tls { url } else { path };
        let agent = "User-Agent: loadgen/1.0\r\n";
        let request = format!(
            "GET {form} HTTP/1.1\r\nHost: {authority}\r\n{agent}Accept: */*\r\nAccept-Encoding: gzip\r\n\r\n"
        );
        let connect = (tls && proxy.is_some()).then(|| {
            format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{agent}\r\n").into_bytes()
        });
        let address = proxy.map_or_else(|| resolve(authority), Ok)?;
        Ok(Self { tls: tls.then(|| host.to_owned()), address, connect, request: request.into_bytes() })
    }
}

/// The first address of IPv4: its sockets are of that family.
fn resolve(authority: &str) -> Result<SocketAddr, String> {
    let mut found = authority.to_socket_addrs().map_err(|error| format!("{authority}: {error}"))?;
    found.find(SocketAddr::is_ipv4).ok_or_else(|| format!("{authority} has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_stands_for_each_of_its_numbers() {
        assert_eq!(expand("a").unwrap(), ["a"]);
        assert_eq!(expand("a{1..3}b").unwrap(), ["a1b", "a2b", "a3b"]);
        for bad in ["{1..", "{3..1}", "{a}", "{0..100000}"] {
            assert!(expand(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_form_of_a_request_hangs_on_the_way() {
        let proxy = Some(SocketAddr::from(([127, 0, 0, 1], 3128)));
        let line = |url: &str, proxy| {
            let target = Target::new(url, proxy).unwrap();
            let request = String::from_utf8(target.request).unwrap();
            (request.lines().next().unwrap().to_owned(), target.connect.is_some())
        };
        assert_eq!(line("http://127.0.0.1:1/a", None), ("GET /a HTTP/1.1".to_owned(), false));
        let absolute = "GET http://127.0.0.1:1/a HTTP/1.1".to_owned();
        assert_eq!(line("http://127.0.0.1:1/a", proxy), (absolute, false));
        assert_eq!(line("https://127.0.0.1:1/a", proxy), ("GET /a HTTP/1.1".to_owned(), true));
    }
}

//! The parent proxies: whether their file can be read, and each accepts connections.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::finding::Finding;
use crate::config::Settings;
use crate::egress::ParentAddress;

/// How long a parent may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Variables by which other programs find a proxy, and this one does not.
const VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Whether each parent can be connected to; empty without one. `is_set` tells the variables that
/// are set.
pub fn parents(settings: &Settings, is_set: impl Fn(&str) -> bool) -> Vec<Finding> {
    let egress = &settings.egress;
    if let Err(error) = egress.parents() {
        let remedy = "write NAME:PASSWORD into it, readable by its owner and group only";
        return vec![Finding::bad("parent proxy", error.to_string(), remedy)];
    }
    let named = egress.parents.iter().filter_map(|rule| rule.parent.as_ref());
    let mut addresses: Vec<&ParentAddress> = Vec::new();
    for address in egress.parent.iter().chain(named) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let ignored = VARIABLES.into_iter().find(|name| is_set(name));
    addresses.into_iter().map(|address| parent(address, ignored)).collect()
}

fn parent(address: &ParentAddress, ignored: Option<&str>) -> Finding {
    let subject = format!("parent proxy {address}");
    match connect(address) {
        Ok(()) => {
            let mut said = "accepts connections".to_owned();
            if let Some(name) = ignored {
                said.push_str(&format!("\nnote: {name} is set, and means nothing to courtesy"));
            }
            Finding::well(subject, said)
        }
        Err(error) => {
            let remedy = "check egress.parent, and that the parent runs";
            Finding::bad(subject, format!("cannot be connected to: {error}"), remedy)
        }
    }
}

fn connect(address: &ParentAddress) -> std::io::Result<()> {
    let mut failed = None;
    for at in (address.host(), address.port()).to_socket_addrs()? {
        match TcpStream::connect_timeout(&at, CONNECT_TIMEOUT) {
            Ok(_) => return Ok(()),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| std::io::ErrorKind::NotFound.into()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn each_parent_is_tried_once() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let open = format!("socks5h://{}", listener.local_addr().unwrap());
        let mut settings = Settings::default();
        assert!(parents(&settings, |_| true).is_empty());
        settings.egress.parent = Some(open.parse().unwrap());
        settings.egress.parents = ["a.example=direct".to_owned(), format!("b.example={open}")]
            .map(|rule| rule.parse().unwrap())
            .to_vec();
        let found = parents(&settings, |name| name == "HTTP_PROXY");
        let [finding] = &found[..] else { panic!("{}", found.len()) };
        let said = finding.to_string();
        assert!(said.contains("accepts connections") && said.contains("HTTP_PROXY"), "{said}");
        drop(listener);
        let said = parents(&settings, |_| false)[0].to_string();
        assert!(said.contains("cannot be connected to"), "{said}");
    }
}

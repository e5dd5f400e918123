//! Addresses of listeners as people write them: a missing part is filled in if it is unambiguous.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The default port of `listen.proxy`.
pub const PROXY_PORT: u16 = 3128;
/// The default port of `listen.admin`.
pub const ADMIN_PORT: u16 = 3129;

/// Parses `127.0.0.1:3128`, an address alone, whose port is `default`, or a port alone, whose
/// address is 127.0.0.1, as is that of `localhost`. Other names are not looked up.
///
/// # Errors
///
/// What to write instead.
pub fn parse_listen(text: &str, default: u16) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok((ip, default).into());
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, number(port)),
        None => number(text).map_or((text, Some(default)), |port| ("localhost", Some(port))),
    };
    match port {
        Some(port) if host.eq_ignore_ascii_case("localhost") => {
            Ok((Ipv4Addr::LOCALHOST, port).into())
        }
        Some(port) if host.is_empty() => Err(format!(
            "\"{text}\" has no address; write \"127.0.0.1:{port}\" for this machine alone, or \"0.0.0.0:{port}\" \
             for every address of it"
        )),
        _ => Err(format!("\"{text}\" is no address to listen on; write \"127.0.0.1:{default}\"")),
    }
}

/// For the command line.
pub fn parse_proxy(text: &str) -> Result<SocketAddr, String> {
    parse_listen(text, PROXY_PORT)
}

/// For the command line: the address of an existing listener.
pub fn parse_admin(text: &str) -> Result<SocketAddr, String> {
    parse_listen(text, ADMIN_PORT)
}

fn number(port: &str) -> Option<u16> {
    port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_only_mean_one_thing_is_taken() {
        for (text, meant) in [
            ("127.0.0.1:3128", "127.0.0.1:3128"),
            ("127.0.0.1", "127.0.0.1:3128"),
            ("0.0.0.0", "0.0.0.0:3128"),
            ("::1", "[::1]:3128"),
            ("[::1]", "[::1]:3128"),
            ("[::1]:8080", "[::1]:8080"),
            ("8080", "127.0.0.1:8080"),
            ("0", "127.0.0.1:0"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("LocalHost", "127.0.0.1:3128"),
        ] {
            assert_eq!(parse_proxy(text).map(|it| it.to_string()).as_deref(), Ok(meant), "{text}");
        }
        assert_eq!(parse_admin("::1").unwrap().port(), ADMIN_PORT);
    }

    #[test]
    fn what_cannot_is_refused_with_the_right_form() {
        for text in [
            "proxy.example:3128",
            "localhost:",
            "127.0.0.1:",
            "127.0.0.1:99999",
            "70000",
            "::1:x",
            "1.2.3:1",
        ] {
            let said = parse_proxy(text).unwrap_err();
            assert!(
                said.ends_with("is no address to listen on; write \"127.0.0.1:3128\""),
                "{said}"
            );
        }
        let said = parse_proxy(":8080").unwrap_err();
        assert!(
            said.contains("\"127.0.0.1:8080\" for this machine")
                && said.contains("\"0.0.0.0:8080\""),
            "{said}"
        );
    }
}

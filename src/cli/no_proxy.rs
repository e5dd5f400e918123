//! Which hosts clients contact directly. The command's own services on loopback are not a crawl:
//! requests to WebDriver, a database or a local API must not go to the proxy, which refuses loopback.

use clap::Args;

/// What every client tried takes from `NO_PROXY` (see `docs/guide/clients.md`): names with and without the
/// dot, the address itself for those without blocks. `::1` is not there on purpose: Ruby parts entries
/// at colons and would leave out every IPv4 address that ends in `.1`; in brackets, httpx refuses to
/// start. Ruby, Go, Java and Chromium leave it out by themselves.
const LOOPBACK: &str = "localhost,.localhost,127.0.0.1,127.0.0.0/8";

/// The same for Java, which knows neither blocks nor a leading dot.
const LOOPBACK_OF_JAVA: [&str; 4] = ["localhost", "*.localhost", "127.*", "[::1]"];

/// Chromium leaves loopback out by itself; this entry takes that back. To others it is a host that
/// does not exist.
const NOT_LOOPBACK: &str = "<-loopback>";

/// The flags of the commands that set variables for clients.
#[derive(Args, Clone, Debug, Default)]
pub struct NoProxyFlags {
    /// Hosts that bypass the proxy, besides loopback, separated by commas (NO_PROXY)
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    no_proxy: String,
    /// Send loopback (localhost, 127.0.0.0/8) through the proxy, too, to test a local site; the proxy
    /// contacts it only with --allow-private
    #[arg(long)]
    proxy_loopback: bool,
}

impl NoProxyFlags {
    /// The hosts that the flags name.
    pub fn list(&self) -> NoProxy {
        NoProxy { hosts: self.no_proxy.clone(), proxy_loopback: self.proxy_loopback }
    }
}

/// The hosts that bypass the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoProxy {
    /// Those that the user names, separated by commas.
    pub hosts: String,
    /// Whether loopback goes through the proxy; otherwise it is left out.
    pub proxy_loopback: bool,
}

impl NoProxy {
    /// The value of `NO_PROXY`. Never empty: an inherited list would let clients bypass the proxy.
    pub fn variable(&self) -> String {
        let loopback = if self.proxy_loopback { NOT_LOOPBACK } else { LOOPBACK };
        std::iter::once(loopback).chain(self.named()).collect::<Vec<_>>().join(",")
    }

    /// The value of Java's `http.nonProxyHosts`; set even when empty, as Java leaves out loopback by
    /// itself otherwise.
    pub fn of_java(&self) -> String {
        let loopback = LOOPBACK_OF_JAVA.iter().filter(|_| !self.proxy_loopback);
        let named = self.named().filter(|host| *host != NOT_LOOPBACK).map(|host| {
            match host.strip_prefix('.') {
                Some(domain) => format!("*.{domain}"),
                None => host.to_owned(),
            }
        });
        loopback.map(ToString::to_string).chain(named).collect::<Vec<_>>().join("|")
    }

    fn named(&self) -> impl Iterator<Item = &str> {
        self.hosts.split(',').map(str::trim).filter(|host| !host.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_bypasses_the_proxy_besides_the_named_hosts() {
        let mut list = NoProxy { hosts: "intranet, .internal".into(), proxy_loopback: false };
        assert_eq!(
            list.variable(),
            "localhost,.localhost,127.0.0.1,127.0.0.0/8,intranet,.internal"
        );
        assert_eq!(list.of_java(), "localhost|*.localhost|127.*|[::1]|intranet|*.internal");
        list.proxy_loopback = true;
        assert_eq!(list.variable(), "<-loopback>,intranet,.internal");
        assert_eq!(list.of_java(), "intranet|*.internal");
    }

    /// Ruby finds the host "1" in "::1", and any address that ends in ".1" would go around the proxy.
    #[test]
    fn no_entry_has_a_colon() {
        for proxy_loopback in [false, true] {
            assert!(!NoProxy { proxy_loopback, ..NoProxy::default() }.variable().contains(':'));
        }
    }
}

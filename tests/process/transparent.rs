//! `courtesy redirect`: rules of nftables lead a crawler that is set up for nothing to the proxy. Tried
//! with a network of its own: an origin at 93.184.216.34 in a second one, and a crawler that runs as
//! another user than the proxy.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::testkit::processes::Place;

/// Two networks, in the second of which an origin is to be started.
const NETWORK: &str = r#"
exec 2>&1
ip link set lo up
unshare --net sleep 600 & origin=$!
trap 'kill $origin $server $proxy' EXIT
until [ "$(readlink /proc/$origin/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.1; done
ip link add here type veth peer name there netns $origin
ip addr add 93.184.216.1/24 dev here; ip link set here up
nsenter --target $origin --net sh -c 'ip link set lo up
    ip addr add 93.184.216.34/24 dev there; ip addr add 2606:2800:220:1::34/64 dev there nodad
    ip link set there up'
ip addr add 2606:2800:220:1::1/64 dev here nodad
wait_for() {
    tries=200
    until "$@"; do tries=$((tries - 1)); [ $tries -gt 0 ] || return 1; sleep 0.1; done
}
printf '127.0.0.1 localhost\n93.184.216.34 site.example\n2606:2800:220:1::34 six.example\n' >"$DIR/hosts"
mount --bind "$DIR/hosts" /etc/hosts
"#;

const SCRIPT: &str = r#"
mkdir -p "$DIR/site/private"
printf 'User-agent: *\nDisallow: /private/\n' >"$DIR/site/robots.txt"
echo the page >"$DIR/site/page"; echo secret >"$DIR/site/private/page"
(cd "$DIR/site"; exec nsenter --target $origin --net python3 -m http.server --bind :: 80) >"$DIR/served" 2>&1 & server=$!
wait_for curl -s -o /dev/null http://93.184.216.34/page
wait_for curl -s -o /dev/null 'http://[2606:2800:220:1::34]/page'
"$COURTESY" redirect check --uid 0; echo "before: $?"
"$COURTESY" serve --listen 127.0.0.1:3128 --admin off & proxy=$!
crawler() { setpriv --reuid=12345 --regid=12345 --clear-groups "$@"; }
"$COURTESY" redirect apply --uid 0 && "$COURTESY" redirect apply --uid 0; echo "applied: $?"
wait_for "$COURTESY" redirect check --uid 0; echo "holds: $?"
timeout 60 "$COURTESY" doctor curl
crawler curl -s --retry 5 --retry-connrefused --max-time 20 http://site.example/page
crawler curl -s --max-time 20 -o /dev/null -w 'private: %{http_code}\n' http://site.example/private/page
crawler curl -s --max-time 20 -H 'Host: site.example' http://93.184.216.99/page
crawler curl -s --max-time 20 http://127.0.0.1:3130/; echo "direct: $?"
crawler python3 -c '
import socket
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.settimeout(5)
udp.connect(("93.184.216.34", 443))
try: udp.send(b"x"); udp.recv(1)
except (ConnectionRefusedError, PermissionError): print("quic: refused")'
crawler curl -s --max-time 20 http://six.example/page
crawler curl -s --max-time 20 -o /dev/null -w 'private by six: %{http_code}\n' http://six.example/private/page
curl -s --max-time 20 http://site.example/private/page | sed 's/^/exempt: /'
kill $proxy; wait $proxy
crawler curl -s --max-time 20 http://site.example/page; echo "while it is down: $?"
"$COURTESY" serve --listen 127.0.0.1:3128 --admin off & proxy=$!
crawler curl -s --retry 5 --retry-connrefused --max-time 20 http://site.example/page
kill $proxy; wait $proxy
# A listener of IPv6 has connections by IPv4, too, from mapped addresses (RFC 4291 section 2.5.5.2).
export COURTESY__LISTEN__TRANSPARENT='[::]:3130' COURTESY__CLIENTS__ALLOW=93.184.216.1
"$COURTESY" serve --listen 127.0.0.1:3128 --admin off & proxy=$!
crawler curl -s --retry 5 --retry-connrefused --max-time 20 http://site.example/page
crawler curl -s --max-time 20 'http://[::ffff:127.0.0.1]:3130/'; echo "direct by a mapped address: $?"
crawler curl -s --max-time 20 -H 'Host: [::ffff:127.0.0.1]' -o /dev/null -w 'mapped host: %{http_code}\n' http://site.example/
crawler python3 -c '
import socket
def connect(): return socket.create_connection(("::ffff:93.184.216.34", 80), 20)
def get(path):
    client = connect()
    client.sendall(b"GET " + path + b" HTTP/1.0\r\n\r\n")
    return client.makefile("rb").read().decode()
print("mapped destination:", get(b"/page").split()[-1], get(b"/private/page").split()[1])
print("silent:", connect().recv(1))'
"$COURTESY" redirect remove && "$COURTESY" redirect remove; echo "removed: $?"
echo "rules left: $(nft list ruleset | wc -l)"
crawler curl -s --max-time 20 http://site.example/private/page
"#;

/// Runs `script` as root in two networks of its own: what it said, and where. `tls` makes settings
/// of the section `[tls]`, and of more after it. `None`: only root can do this.
pub fn run(script: &str, tls: impl FnOnce(&Path) -> String) -> Option<(String, Place)> {
    if !rustix::process::geteuid().is_root() {
        println!("WAS NOT RUN: only root can run a crawler as another user than the proxy");
        return None;
    }
    let place = Place::new("");
    let tls = tls(place.path());
    let listen = "[listen]\ntransparent = [\"127.0.0.1:3130\", \"[::1]:3130\"]\n";
    let settings = format!("{listen}[tls]\nroots = \"bundled\"\n{tls}");
    fs::write(place.configuration(), settings).expect("a file");
    let serve = place.command("serve");
    let mut command = Command::new("unshare");
    let script = [NETWORK, script].concat();
    command.args(["--net", "--mount", "--propagation", "private", "sh", "-uc", &script]);
    command.env_clear().envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("COURTESY", serve.get_program()).env("DIR", place.path()).stdin(Stdio::null());
    let output = command.output().expect("unshare, of util-linux");
    Some((String::from_utf8_lossy(&output.stdout).into_owned(), place))
}

#[test]
fn rules_of_the_network_lead_a_crawler_to_the_proxy() {
    let more = |_: &Path| String::new();
    let Some((said, place)) = run(SCRIPT, more) else { return };
    let lines: Vec<_> = said.lines().collect();
    for expected in [
        "there is no table inet courtesy",
        "before: 1",
        "applied: 0",
        "holds: 0",
        "the page",
        "private: 403",
        "quic: refused",
        "✓ redirect rules: ports 80 and 443 lead to port 3130, but those of uid 0",
        "! crawlers of this user: this is one of uid 0, which is exempt: it bypasses the proxy",
        "private by six: 403",
        "exempt: secret",
        // Refused: the rules outlive the proxy.
        "while it is down: 7",
        "mapped host: 403",
        "mapped destination: page 403",
        "silent: b''",
        "rules left: 0",
        "removed: 0",
        "secret",
    ] {
        assert!(lines.contains(&expected), "{expected} is not in:\n{said}");
    }
    let pages = lines.iter().filter(|line| **line == "the page").count();
    assert_eq!(pages, 5, "also by a false address, by IPv6 and after restarts:\n{said}");
    // 52: closed, 56: reset, by whether its request had arrived.
    for direct in ["direct", "direct by a mapped address"] {
        let is_closed = [52, 56].map(|code| format!("{direct}: {code}"));
        let is_closed = is_closed.iter().any(|line| lines.contains(&line.as_str()));
        assert!(is_closed, "a connection to the listener itself, {direct}:\n{said}");
    }
    let silent = "a client has connected to 93.184.216.34:80 and sent nothing: closed";
    assert!(said.contains(silent), "{said}");
    assert_eq!(lines.iter().filter(|line| **line == "secret").count(), 1, "{said}");
    let log = place.log();
    let denied: Vec<_> = log.events("denied").iter().map(|it| it["url"].clone()).collect();
    assert_eq!(
        denied,
        [
            "http://site.example/private/page",
            "http://six.example/private/page",
            "http://[::ffff:127.0.0.1]/",
            "http://93.184.216.34/private/page"
        ]
    );
}

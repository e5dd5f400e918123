//! Many connections to a transparent listener that begin and do not go on. `COURTESY_TEST_CONNECTIONS`
//! is their number, 500 by default; 10000 needs a limit of 16,000 open files.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use courtesy::config::Settings;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::testkit::parties::{Origin, Proxy, until};
use crate::testkit::processes::scale;
use crate::transparent::{Transparent, before};

/// What each connection begins with: nothing, half a ClientHello, half a head.
const BEGINNINGS: [&[u8]; 3] =
    [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/1.1\r\nHost: a"];

/// Begins `connections` to HOST PORT in turn with each line of hexadecimal digits, says so, and keeps
/// them until its input ends. A process of its own: both ends would take twice the open files.
const CLIENTS: &str = r#"
import resource, socket, sys
_, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))
host, port, connections, *beginnings = sys.argv[1:]
held = []
for number in range(int(connections)):
    held.append(socket.create_connection((host, int(port)), 20))
    held[-1].sendall(bytes.fromhex(beginnings[number % len(beginnings)]))
print("open", flush=True)
sys.stdin.read()
"#;

/// Half-open connections; dropped, they end.
struct Clients(Child);

impl Clients {
    fn begin(network: &Transparent, count: usize) -> Self {
        let hex =
            |first: &&[u8]| first.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (host, port) = (network.address.ip().to_string(), network.address.port().to_string());
        let mut python = Command::new("python3");
        python.args(["-c", CLIENTS, &host, &port, &count.to_string()]);
        python.args(BEGINNINGS.iter().map(hex));
        let child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("python3");
        let mut said = [0; 5];
        let output = child.stdout.as_mut().expect("its standard output");
        output.read_exact(&mut said).expect("connections");
        assert_eq!(&said, b"open\n");
        Self(child)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// How many connections are tried.
fn many() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("what is allowed");
    scale("COURTESY_TEST_CONNECTIONS", 500)
}

fn open(proxy: &Proxy) -> f64 {
    crate::admin::metrics(proxy)["courtesy_connections"]
}

/// Fills a proxy with these settings: one connection more has this status, and all of them end.
#[track_caller]
fn assert_bounded(origin: &Origin, many: usize, status: u16, edit: impl FnOnce(&mut Settings)) {
    let (proxy, network) = before(origin, |settings| {
        settings.limits.handshake_timeout = Duration::from_secs(300);
        settings.limits.header_timeout = Duration::from_secs(300);
        settings.clients.max_connections = 2 * many;
        settings.clients.max_per_client = 2 * many;
        edit(settings);
    });
    let clients = Clients::begin(&network, many);
    until("they are open", || open(&proxy) == many as f64);
    let rejected = network.connect().send(network.get(&origin.authority(), "/")).read();
    assert_eq!(rejected.status(), status);
    drop(clients);
    until("they are closed", || open(&proxy) == 0.0);
    let request = network.get(&origin.authority(), "/page");
    assert_eq!(network.connect().send(&request).read().status(), 200);
}

#[test]
fn half_open_connections_are_bounded_for_a_client_and_in_total() {
    let (origin, many) = (Origin::start(), many());
    assert_bounded(&origin, many, 429, |settings| settings.clients.max_per_client = many);
    assert_bounded(&origin, many, 503, |settings| settings.clients.max_connections = many);
}

/// The clients stay; it is the proxy that ends each connection.
#[test]
fn half_open_connections_end_within_their_timeouts() {
    let (origin, many) = (Origin::start(), many());
    let (proxy, network) = before(&origin, |settings| {
        settings.limits.handshake_timeout = Duration::from_millis(500);
        settings.limits.header_timeout = Duration::from_millis(500);
        settings.clients.max_connections = 2 * many;
        settings.clients.max_per_client = 2 * many;
    });
    let clients = Clients::begin(&network, many);
    // The network of the test is as that of a sealed run.
    let accepted = "courtesy_connections_accepted_total{listener=\"sealed\"}";
    until("they are served", || crate::admin::metrics(&proxy)[accepted] == many as f64);
    until("they are closed", || open(&proxy) == 0.0);
    assert_eq!(origin.request_lines(), [""; 0]);
    drop(clients);
}

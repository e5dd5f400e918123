//! One client that makes the proxy hold as much as it can, with default settings and honest origins, in a control group
//! of the size that is shipped. The proxy outlives it, others are served meanwhile, and all of it comes back.

mod client;
mod origin;

use std::fs;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::group::Group;
use crate::testkit::parties::{Client, tls};
use crate::testkit::processes::{Place, Serve, scale, until};
use crate::turn::Turn;
use client::Attack;
use origin::{Origins, address};

const MIB: usize = 1 << 20;

/// The memory of the unit for systemd, and that of the container beside a crawler.
const UNIT: usize = 1024 * MIB;
const SIDECAR: usize = 256 * MIB;

/// What the sockets of clients and origins hold at most. The system has a limit for all sockets of the
/// machine (`net.ipv4.tcp_mem`), and resets those that are closed beyond it, whosever they are: what is
/// measured here is the proxy's memory, not that.
const SOCKET_BYTES: u32 = 16 << 10;

/// Where no group can be made: what the process may have beside the memory for bodies.
const BESIDE: usize = 128 * MIB;

/// What one client asks of others at another address.
const PAGES: usize = 50;

type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;
type Attacking = Pin<Box<dyn Future<Output = Ended> + Send>>;
type Form = fn(Arc<Attack>, usize, usize) -> Attacking;

/// Origins, the proxy between, and who attacks it.
struct World {
    runtime: Runtime,
    serve: Serve,
    attack: Arc<Attack>,
    group: Option<Group>,
    memory: usize,
    _place: Place,
}

impl World {
    #[track_caller]
    fn new(bytes: usize, settings: &str) -> Self {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("what is allowed");
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread");
        let origins = runtime.block_on(Origins::start());
        let group = Group::of(bytes);
        let limits = if group.is_none() {
            println!("there is no control group: limits.body_memory is set to a quarter instead");
            format!("[limits]\nbody_memory = \"{}B\"\n", bytes / 4)
        } else {
            String::new()
        };
        // A client that leaves in the midst of an upload is noticed when the origin's time is over.
        let egress =
            format!("[egress]\nconnect_ports = [{}]\nresponse_timeout = \"12s\"\n", origins.secure);
        let place = Place::new(&format!("{egress}{limits}{settings}"));
        let root = place.path().join("origins.pem");
        fs::write(&root, &origins.root).expect("a directory that can be written to");
        let serve = Serve::start(within(&group, &place, &root));
        let trust = serve.get("http://courtesy.internal/ca.pem").body;
        let memory = serve.metric("courtesy_body_memory_limit_bytes");
        let attack = Attack {
            proxy: serve.address(),
            origins: Arc::new(origins),
            trust: tls::trusting_today(&trust, &["h2"]),
            from: Ipv4Addr::new(127, 0, 0, 2),
            settled: AtomicUsize::new(0),
        };
        Self { runtime, serve, attack: Arc::new(attack), group, memory, _place: place }
    }

    /// A page for a client at another address.
    fn page(&self, number: usize) -> u16 {
        let url = format!("http://{}:{}/page", address(number), self.attack.origins.plain);
        Client::connect_from(Ipv4Addr::new(127, 0, 0, 9), self.serve.address()).get(&url).status()
    }

    #[track_caller]
    fn outlives(&self, what: &str, form: Form, connections: usize, each: usize) {
        assert_eq!(self.page(0), 200);
        let before = self.serve.resident();
        let mut attacking = JoinSet::new();
        for number in 0..connections {
            let (attacking_one, attack) = (form, Arc::clone(&self.attack));
            attacking.spawn_on(
                async move {
                    let ended = attacking_one(Arc::clone(&attack), number, each).await;
                    if let Err(error) = ended {
                        attack.failed(&error.to_string(), each);
                    }
                },
                self.runtime.handle(),
            );
        }
        let total = connections * each;
        until(&format!("{what} have what they can get"), || self.attack.settled() >= total);
        for number in 0..PAGES {
            assert_eq!(self.page(number), 200, "{what}: page {number} of another client");
        }
        let held = self.serve.metric("courtesy_body_memory_bytes");
        let peak = self.group.as_ref().map_or_else(|| self.serve.memory("VmHWM"), Group::peak);
        println!(
            "{what}: {total} requests, {} MiB held of {}, {} MiB more in memory, {} MiB at most",
            held / MIB,
            self.memory / MIB,
            self.serve.resident().saturating_sub(before) / MIB,
            peak / MIB
        );
        assert!(held <= self.memory, "{what}: {held}");
        if self.group.is_none() {
            assert!(peak <= self.memory + BESIDE, "{what}: {peak}");
        }
        drop(attacking);
        until(&format!("{what} have left and all is given back"), || {
            self.serve.metric("courtesy_body_memory_bytes") == 0
        });
        self.attack.settled.store(0, std::sync::atomic::Ordering::SeqCst);
    }
}

/// `courtesy serve` in that group.
fn within(group: &Option<Group>, place: &Place, root: &std::path::Path) -> Command {
    let serve = place.command(&format!("serve --allow-private --extra-root {}", root.display()));
    let Some(group) = group else { return serve };
    let mut command = Command::new("sh");
    command.args(["-ec", &format!("{}; exec \"$@\"", group.enter()), "sh"]);
    command
        .arg(serve.get_program())
        .args(serve.get_args())
        .env_clear()
        .stdin(std::process::Stdio::null());
    command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

macro_rules! form {
    ($name:ident) => {
        |attack, number, each| Box::pin(client::$name(attack, number, each))
    };
}

/// What a client can do, over how many connections, and how many requests it makes on each.
const FORMS: [(&str, Form, usize, usize); 10] = [
    ("streams with shut windows", form!(shut_streams), 40, 100),
    ("streams of connections with shut windows", form!(shut_connection), 40, 100),
    ("windows opened by one byte at a time", form!(byte_windows), 20, 100),
    ("windows shrunk after much was read", form!(shrunk_windows), 20, 90),
    ("uploads of HTTP/2 to origins that take nothing", form!(h2_uploads), 40, 100),
    ("uploads to origins that take nothing", form!(h1_uploads), 4000, 1),
    ("answers in chunks that are read in part", form!(chunked), 2000, 1),
    ("large answers asked for in one go", form!(pipelined), 400, 10),
    ("WebSockets that are not read", form!(sockets), 2000, 1),
    ("heads without an end", form!(heads), 4000, 1),
];

#[track_caller]
fn outlives_all(bytes: usize, settings: &str) {
    let world = World::new(bytes, settings);
    let part = scale("COURTESY_TEST_STALLED", 100);
    for (what, form, connections, each) in FORMS {
        world.outlives(what, form, (connections * part).div_ceil(100), each);
    }
    world.serve.stop();
}

#[test]
fn l14_one_client_cannot_use_up_the_memory_of_a_sidecar() {
    let _turn = Turn::wait();
    outlives_all(SIDECAR, "[robots]\ncache_size = \"64MiB\"\n[pace]\nmode = \"off\"\n");
}

#[test]
fn l14_one_client_cannot_use_up_the_memory_of_the_unit() {
    let _turn = Turn::wait();
    outlives_all(UNIT, "[pace]\nmode = \"off\"\n");
}

//! What the shared engine costs: operations a second of each kind on one Redis server that this
//! starts on a Unix socket, the server's own time for one, and bytes per origin; and heartbeats of up to
//! ten thousand proxies, beside a plain GET, and messages to many of them.
//! `cargo bench --bench engine -- [ORIGINS]`, by default ten thousand.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use courtesy::engine::redis::{Address, RedisConfig, RedisEngine, Script};
use courtesy::engine::{
    Config, Engine, HoldCause, HoldLength, HoldRequest, LeaseToken, LookupOutcome, LookupRequest,
    Pending, PublishRequest, SlotsRequest,
};
use courtesy::runtime::clock::{SystemClock, monotonic};
use courtesy::types::origin::{Host, Origin, Scheme};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// Operations under way at a time.
const UNDER_WAY: usize = 256;
/// Proxies at an origin whose bytes are measured.
const PROXIES: usize = 3;

/// What is known of an origin with an ordinary robots.txt, and the capture of its fetch.
const KNOWN: &str = r#"{"good":{"at":1790000000123,"url":"https://site-4711.example/robots.txt","hops":0,"capture":"6c1d3b6f0f7c0c4be6f1c1a40ab3ae7a5f3f5b7a8f2bd0bb84ff21f10b7f0c11","freshness":{"max_age":86400},"file":{"sha256":"9f2b8d7c64a1f0b3e5d2c9a8b7f6e5d4c3b2a1908f7e6d5c4b3a291807f6e5d4","octets":1213,"cut":false,"status":200,"url":"https://site-4711.example/robots.txt","hops":0,"fetched_at":1790000000101,"content_type":"text/plain; charset=utf-8","etag":"\"4bd-61f2c3a4\"","last_modified":"Tue, 04 Aug 2026 09:12:31 GMT","capture":"6c1d3b6f0f7c0c4be6f1c1a40ab3ae7a5f3f5b7a8f2bd0bb84ff21f10b7f0c11"}},"site_up":true,"states":[{"profile":{"name":"rfc9309","version":2},"meanings":"rfc9309","state":"successful","since":1790000000123,"next_try":1790086400123,"has_copy":true,"failures":0,"site_up":true}]}{"answers":[{"head":"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Tue, 22 Sep 2026 02:13:20 GMT\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 1213\r\nLast-Modified: Tue, 04 Aug 2026 09:12:31 GMT\r\nConnection: keep-alive\r\nETag: \"4bd-61f2c3a4\"\r\nStrict-Transport-Security: max-age=31536000\r\nAccept-Ranges: bytes\r\n\r\n","head_cut":false,"peer":"203.0.113.17","request":"GET /robots.txt HTTP/1.1\r\nHost: site-4711.example\r\nUser-Agent: ExampleBot (+https://bot.example/)\r\nAccept: text/plain, */*;q=0.8\r\nAccept-Encoding: gzip, deflate\r\n\r\n","status":200,"url":"https://site-4711.example/robots.txt"}],"asked":"https://site-4711.example/robots.txt","body":{"cut":false,"octets":1213,"sha256":"9f2b8d7c64a1f0b3e5d2c9a8b7f6e5d4c3b2a1908f7e6d5c4b3a291807f6e5d4"},"failure":null,"fetched_at":1790000000101,"user_agent":"ExampleBot (+https://bot.example/)"}"#;

/// An ordinary robots.txt.
const FILE: &str = "User-agent: *\nCrawl-delay: 10\nDisallow: /cgi-bin/\nDisallow: /search\n\
    Disallow: /account/\nDisallow: /cart\nDisallow: /*?sort=\nDisallow: /*&page=\nAllow: /search/about\n\
    \nUser-agent: GPTBot\nDisallow: /\n\nUser-agent: CCBot\nDisallow: /\n\n\
    Sitemap: https://site-4711.example/sitemap.xml\n";

/// The server; it ends with the benchmark.
struct Server {
    dir: TempDir,
    process: Child,
}

impl Server {
    fn start() -> Self {
        let dir = TempDir::new().expect("a directory");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--loglevel", "warning", "--unixsocket"]);
        command.arg(dir.path().join("redis.sock")).arg("--dir").arg(dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self { process: command.spawn().expect("redis-server"), dir }
    }

    fn engine(&self, name: &str) -> RedisEngine {
        let config = RedisConfig::at(Address::Unix(self.dir.path().join("redis.sock")));
        let timeout = Duration::from_secs(10);
        let config = RedisConfig { timeout, ..config };
        let engine = RedisEngine::start(Config::named(name), config, Arc::new(SystemClock));
        engine.expect("a thread")
    }

    /// What the server's own client prints.
    fn ask(&self, words: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.arg("-s").arg(self.dir.path().join("redis.sock")).args(words);
        let output = command.output().expect("redis-cli, of redis-tools");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn main() {
    let mut numbers = std::env::args().filter_map(|word| word.parse::<usize>().ok());
    let count = numbers.next().unwrap_or(10_000);
    let server = Server::start();
    let engine = server.engine("proxy-0");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        engine.wait_until_reachable().await;
        speed(&server, &engine, count).await;
        size(&server, &engine, count).await;
    });
    drop(engine);
    heartbeats(&server);
    pushes(&server);
}

fn origin(number: usize) -> Origin {
    Origin::new(Scheme::Https, Host::Name(format!("site-{number}.example").into()), 443)
}

fn slots_request(origin: &Origin, count: u8) -> SlotsRequest<'_> {
    SlotsRequest {
        origin,
        group: "*",
        lane_delay: Duration::ZERO,
        site_delay: Duration::from_secs(10),
        slack: Duration::from_millis(60),
        horizon: Duration::from_secs(120),
        cell_delay: Duration::from_secs(10),
        count,
        left: Duration::ZERO,
        missed: None,
    }
}

async fn speed(server: &Server, engine: &RedisEngine, count: usize) {
    let origins: Vec<_> = (0..count).map(origin).collect();
    let request =
        |have, may_fetch| move |origin| LookupRequest { origin, have, may_fetch, is_used: true };
    println!("{:<28} {:>12} {:>16}", "operation", "per second", "server, us each");
    let mut leases = Vec::new();
    let first = request(LeaseToken::default(), true);
    run(
        "lookup: the lease",
        server,
        &origins,
        |origin| engine.lookup(first(origin)),
        |response| {
            if let LookupOutcome::Lease(token) = response.outcome {
                leases.push(token);
            }
        },
    )
    .await;
    let mut tokens = leases.iter();
    let value = KNOWN.as_bytes();
    let publish = |origin| {
        let token = *tokens.next().expect("each has its lease");
        engine.publish(PublishRequest { origin, token, value })
    };
    run("publish", server, &origins, publish, drop).await;
    run("lookup: something newer", server, &origins, |origin| engine.lookup(first(origin)), drop)
        .await;
    let known = request(LeaseToken(u64::MAX), false);
    run("lookup: nothing newer", server, &origins, |origin| engine.lookup(known(origin)), drop)
        .await;
    run(
        "reserve_slots: one slot",
        server,
        &origins,
        |origin| engine.reserve_slots(slots_request(origin, 1)),
        drop,
    )
    .await;
    run(
        "reserve_slots: four slots",
        server,
        &origins,
        |origin| engine.reserve_slots(slots_request(origin, 4)),
        drop,
    )
    .await;
    run("announce_presence", server, &origins, |origin| engine.announce_presence(origin), drop)
        .await;
    let (length, cause) = (HoldLength::For(Duration::from_secs(30)), HoldCause::RetryAfter);
    let hold = |origin| engine.set_hold(HoldRequest { origin, length, status: 429, cause });
    run("set_hold", server, &origins, hold, drop).await;
    run("reset_backoff", server, &origins, |origin| engine.reset_backoff(origin), drop).await;
    run("heartbeat", server, &origins, |_| engine.heartbeat(), drop).await;
    let file = Bytes::from_static(FILE.as_bytes());
    let digest: [u8; 32] = Sha256::digest(&file).into();
    run("put_file", server, &origins, |_| engine.put_file(digest, file.clone()), drop).await;
    run("get_file", server, &origins, |_| engine.get_file(digest), drop).await;
}

/// One operation for each origin.
async fn run<'a, T>(
    name: &str,
    server: &Server,
    origins: &'a [Origin],
    mut send: impl FnMut(&'a Origin) -> Pending<T>,
    mut take: impl FnMut(T),
) {
    server.ask(&["CONFIG", "RESETSTAT"]);
    let begun = monotonic();
    let mut under_way = VecDeque::new();
    for origin in origins {
        if under_way.len() >= UNDER_WAY {
            take(next(&mut under_way).await);
        }
        under_way.push_back(send(origin));
    }
    while !under_way.is_empty() {
        take(next(&mut under_way).await);
    }
    let command = match name {
        "put_file" => "set",
        "get_file" => "getrange",
        _ => "evalsha",
    };
    let per_second = origins.len() as f64 / begun.elapsed().as_secs_f64();
    println!("{name:<28} {per_second:>12.0} {:>16.1}", micros_each(server, command));
}

async fn next<T>(under_way: &mut VecDeque<Pending<T>>) -> T {
    under_way.pop_front().expect("not empty").await.expect("the server responds")
}

/// The server's own time for each operation since the statistics were reset. A script's has that of
/// the commands within.
fn micros_each(server: &Server, command: &str) -> f64 {
    let stats = server.ask(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
    let each =
        line.and_then(|line| line.split(',').find_map(|it| it.strip_prefix("usec_per_call=")));
    each.and_then(|each| each.trim().parse().ok()).unwrap_or(f64::NAN)
}

/// Bytes that an origin takes with everything that is shared of it.
async fn size(server: &Server, engine: &RedisEngine, count: usize) {
    let origin = origin(0);
    let others: Vec<_> =
        (1..PROXIES).map(|number| server.engine(&format!("proxy-{number}"))).collect();
    for other in &others {
        other.wait_until_reachable().await;
        other.announce_presence(&origin).await.expect("the server responds");
    }
    engine.announce_presence(&origin).await.expect("the server responds");
    println!("\n{} bytes known, {} bytes of a file, {PROXIES} proxies", KNOWN.len(), FILE.len());
    for name in ["known", "lease", "pace", "presence"] {
        let key = format!("courtesy:1:{{{origin}}}:{name}");
        let bytes = server.ask(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]);
        println!("{name:<28} {:>12} bytes", bytes.trim());
    }
    let digest: [u8; 32] = Sha256::digest(FILE).into();
    let key = format!("courtesy:1:file:{}", courtesy::types::sanitize::hex(&digest));
    let bytes = server.ask(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]);
    println!("{:<28} {:>12} bytes", "file", bytes.trim());
    let memory = server.ask(&["INFO", "memory"]);
    let field = |name: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse::<usize>().ok()).unwrap_or(0)
    };
    let dataset = field("used_memory_dataset:") + field("mem_overhead_db_hashtable_rehashing:");
    println!(
        "{count} origins: {} MiB in use, {} bytes of data each",
        field("used_memory:") >> 20,
        dataset / count
    );
}

/// Proxies that send heartbeats, and those beside them that are missing.
const CROWDS: [(usize, usize); 5] = [(10, 0), (1000, 0), (10_000, 0), (9000, 1000), (5000, 5000)];
/// Commands under way at a time, and in all.
const PIPELINE: usize = 64;
const COMMANDS: usize = 20_000;
/// Of what happens once, the fastest of so many counts: others may use the machine.
const TRIES: usize = 5;

/// Heartbeats of many proxies as the server carries them out. They are sent without the program, which sends
/// those of one proxy.
fn heartbeats(server: &Server) {
    let mut wire = Wire::to(server);
    wire.send(&[command(&["SET", "plain", "value"])]);
    let get = measure(server, || {
        for _ in 0..COMMANDS / PIPELINE {
            wire.send(&vec![command(&["GET", "plain"]); PIPELINE]);
        }
    });
    let head = ["heartbeats of", "per second", "processor, us each", "to GET"];
    println!("\n{:<28} {:>12} {:>20} {:>8}", head[0], head[1], head[2], head[3]);
    println!("{:<28} {:>12.0} {:>20.1} {:>8.1}", "(GET)", get.0, get.1, 1.0);
    for (present, missing) in CROWDS {
        let mut crowd = Crowd::of(server, present, missing);
        let (per_second, micros) = measure(server, || {
            for _ in 0..COMMANDS / PIPELINE {
                crowd.beat(PIPELINE);
            }
        });
        let name = format!("{present} proxies, {missing} missing");
        println!("{name:<28} {per_second:>12.0} {micros:>20.1} {:>8.1}", micros / get.1);
        println!("    most of it: {}", dearest(server));
        // What the first of each interval does for all.
        let listing = once(server, &mut crowd, || vec![b"DEL".to_vec(), cluster_key("missing")]);
        println!("    which lists the missing: {listing}");
        let lost = once(server, &mut crowd, || command(&["FLUSHDB"]));
        println!("    the first after a loss of data: {lost}");
    }
}

/// Subscribers, and messages to all of them.
const SUBSCRIBERS: usize = 500;
const MESSAGES: usize = 200;

/// What a message to each of many proxies takes.
fn pushes(server: &Server) {
    let mut wire = Wire::to(server);
    let mut subscribers: Vec<_> = (0..SUBSCRIBERS).map(|_| Wire::to(server)).collect();
    let key = "courtesy:1:{https://site-4711.example}:pace";
    for subscriber in &mut subscribers {
        subscriber.send(&[command(&["SUBSCRIBE", key])]);
    }
    let publish = command(&["PUBLISH", key, "1790000000123456 429 retry_after"]);
    let before = processor_micros(server);
    for _ in 0..MESSAGES {
        wire.send(std::slice::from_ref(&publish));
        subscribers.iter_mut().for_each(|subscriber| drop(subscriber.reply()));
    }
    let micros = (processor_micros(server) - before) / (MESSAGES * SUBSCRIBERS) as f64;
    println!(
        "\na message to one of {SUBSCRIBERS} subscribers: {micros:.1} us of the server's processor"
    );
}

fn command(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// How many a second there were of the commands that `send` sends, and the processor time of the server for
/// one, with what it takes to read and write it.
fn measure(server: &Server, send: impl FnOnce()) -> (f64, f64) {
    server.ask(&["CONFIG", "RESETSTAT"]);
    let (before, begun) = (processor_micros(server), monotonic());
    send();
    let per_second = COMMANDS as f64 / begun.elapsed().as_secs_f64();
    (per_second, (processor_micros(server) - before) / COMMANDS as f64)
}

fn processor_micros(server: &Server) -> f64 {
    let text = server.ask(&["INFO", "cpu"]);
    let value = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.trim().parse::<f64>().ok()).unwrap_or(f64::NAN)
    };
    1e6 * (value("used_cpu_user:") + value("used_cpu_sys:"))
}

/// One heartbeat after a command, and what took most of it.
fn once(server: &Server, crowd: &mut Crowd, before: impl Fn() -> Vec<Vec<u8>>) -> String {
    let one = || {
        server.ask(&["CONFIG", "RESETSTAT"]);
        crowd.wire.send(&[before()]);
        crowd.beat(1);
        (micros_each(server, "evalsha"), dearest(server))
    };
    let tries = std::iter::repeat_with(one).take(TRIES);
    let fastest = tries.min_by(|(one, _), (other, _)| one.total_cmp(other));
    fastest.map(|(micros, text)| format!("{micros:.0} us; {text}")).unwrap_or_default()
}

/// The commands within scripts that took most of the server's time.
fn dearest(server: &Server) -> String {
    let stats = server.ask(&["INFO", "commandstats"]);
    let mut commands: Vec<_> = stats.lines().filter_map(command_stats).collect();
    commands.sort_unstable_by(|one, other| other.cmp(one));
    let text =
        |(micros, calls, name): &(u64, u64, &str)| format!("{name} {micros} us in {calls} calls");
    commands.iter().take(3).map(text).collect::<Vec<_>>().join(", ")
}

/// Microseconds, calls and name.
fn command_stats(line: &str) -> Option<(u64, u64, &str)> {
    let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    let field = |name: &str| {
        let value = fields.split(',').find_map(|field| field.strip_prefix(name));
        value.and_then(|value| value.trim().parse().ok())
    };
    let is_within =
        ["get", "set", "z", "h", "time", "pttl", "pexpire"].iter().any(|it| name.starts_with(it));
    Some((field("usec=")?, field("calls=")?, name)).filter(|_| is_within)
}

fn cluster_key(name: &str) -> Vec<u8> {
    format!("courtesy:1:{{cluster}}:{name}").into_bytes()
}

/// Proxies that take turns with their heartbeats.
struct Crowd {
    wire: Wire,
    script: Vec<u8>,
    proxies: VecDeque<Beating>,
}

/// A proxy, and what it knows of its rank.
#[derive(Default)]
struct Beating {
    number: usize,
    rank: Vec<u8>,
    highest: Vec<u8>,
    epoch: Vec<u8>,
}

/// The letters of each process.
const PROCESS: &str = "1a2b3c4d";

impl Crowd {
    /// So many that all know of each other, and among them so many more that are silent since.
    fn of(server: &Server, present: usize, missing: usize) -> Self {
        let mut wire = Wire::to(server);
        wire.send(&[vec![b"FLUSHALL".to_vec()]]);
        let source = Script::Heartbeat.source().into_bytes();
        let loaded = wire.send(&[vec![b"SCRIPT".to_vec(), b"LOAD".to_vec(), source]]);
        let script = loaded.into_iter().flatten().next().expect("a digest");
        let all = present + missing;
        let proxies = (0..all).map(|number| Beating { number, ..Beating::default() }).collect();
        let mut crowd = Self { wire, script, proxies };
        (0..3 * all).step_by(PIPELINE).for_each(|_| crowd.beat(PIPELINE));
        let time = crowd.wire.send(&[vec![b"TIME".to_vec()]]);
        let seconds = String::from_utf8_lossy(&time[0][0]).parse::<u64>().expect("a time");
        let seen = ((seconds - 60) * 1_000_000).to_string().into_bytes();
        // So that those that stay have ranks all over.
        let is_silent = |number: usize| (number + 1) * missing / all > number * missing / all;
        let silent = (0..all).filter(|number| is_silent(*number));
        for number in silent {
            let name = format!("crawler-{number} {PROCESS}").into_bytes();
            let of = |command: &[u8], key| vec![command.to_vec(), cluster_key(key)];
            let aged = [of(b"ZADD", "seen"), vec![seen.clone(), name.clone()]].concat();
            let gone = [of(b"ZREM", "members"), vec![name]].concat();
            crowd.wire.send(&[aged, gone]);
        }
        crowd.proxies.retain(|it| !is_silent(it.number));
        crowd
    }

    /// The heartbeats of the next so many.
    fn beat(&mut self, count: usize) {
        let commands: Vec<_> = (0..count).map(|at| self.command(at)).collect();
        for mut reply in self.wire.send(&commands) {
            let mut beaten = self.proxies.pop_front().expect("there is one");
            let mut take = |at: usize| std::mem::take(&mut reply[at]);
            (beaten.epoch, beaten.rank, beaten.highest) = (take(4), take(6), take(7));
            self.proxies.push_back(beaten);
        }
    }

    /// As `Shared::heartbeat_call` has it.
    fn command(&self, at: usize) -> Vec<Vec<u8>> {
        let proxy = &self.proxies[at % self.proxies.len()];
        let (number, log) = (proxy.number, ulid::Ulid::from(proxy.number as u128).to_string());
        let name = format!("crawler-{number}");
        let head = format!("4711 {} 1790000000123 0.1.0 {name}", "9f".repeat(32));
        let keys =
            ["members", "about", "epoch", "heads", "ranks", "seen", "widths", "alone", "missing"];
        let keys = keys.into_iter().map(cluster_key).chain([cluster_key(&format!("name:{name}"))]);
        let words = [b"EVALSHA".to_vec(), self.script.clone(), b"10".to_vec()];
        let mut command: Vec<_> = words.into_iter().chain(keys).collect();
        let texts = [&*name, "1", "3735928559", &*head, PROCESS, "0", &*log, "0"];
        command.extend(texts.map(|text| text.as_bytes().to_vec()));
        command.extend([proxy.rank.clone(), proxy.highest.clone(), proxy.epoch.clone()]);
        command.extend([b"0".to_vec(), Vec::new(), Vec::new()]);
        command
    }
}

/// A connection that has many commands under way.
struct Wire(BufReader<UnixStream>);

impl Wire {
    fn to(server: &Server) -> Self {
        let stream = UnixStream::connect(server.dir.path().join("redis.sock"));
        Self(BufReader::new(stream.expect("the server is there")))
    }

    /// The replies to commands; of each its parts.
    fn send(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Vec<Vec<u8>>> {
        let mut sent = Vec::new();
        for words in commands {
            sent.extend(format!("*{}\r\n", words.len()).bytes());
            for word in words {
                sent.extend(format!("${}\r\n", word.len()).bytes());
                sent.extend(word);
                sent.extend(b"\r\n");
            }
        }
        self.0.get_mut().write_all(&sent).expect("the server is there");
        commands.iter().map(|_| self.reply()).collect()
    }

    fn reply(&mut self) -> Vec<Vec<u8>> {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the server is there");
        let rest = line[1..].trim_end();
        let length = || rest.parse::<usize>().expect("no error");
        match line.as_bytes()[0] {
            b'*' => (0..length()).flat_map(|_| self.reply()).collect(),
            b'$' => {
                let mut text = vec![0; length() + 2];
                self.0.read_exact(&mut text).expect("the server is there");
                text.truncate(text.len() - 2);
                vec![text]
            }
            b'-' => panic!("{line}"),
            _ => vec![rest.as_bytes().to_vec()],
        }
    }
}

//! What the shared engine costs: operations a second of each kind on one Redis server that this
//! starts on a Unix socket, the server's own time for one, and bytes per origin.
//! `cargo bench --bench engine -- [ORIGINS]`, by default ten thousand.

use std::collections::VecDeque;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use courtesy::engine::redis::{Address, RedisConfig, RedisEngine};
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
        cell_delay: Duration::from_secs(10),
        slack: Duration::from_millis(60),
        horizon: Duration::from_secs(120),
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

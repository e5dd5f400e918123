//! Others read the log while the proxy writes it: no reader sees an error, and whoever follows sees
//! each record once.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::testkit::processes::{Crawler, Place, RULES, Serve, Site, until};

/// Denials while the readers read, and by how many clients.
const DENIALS: usize = 2000;
const CLIENTS: usize = 8;

/// Files so small that a reader meets the end of many, while they are closed and compressed.
const SETTINGS: &str = "[audit]\nrotate_size = \"32KiB\"";

/// Commands that read the whole log.
const READERS: [&str; 4] =
    ["audit verify", "audit report --format json", "audit query --format json", "audit head"];

#[test]
fn many_may_read_while_the_proxy_writes() {
    let site = Site::with_rules(RULES);
    let place = Place::new(SETTINGS);
    let serve = place.serve();
    // The first record: from now on there is something to follow.
    let first = serve.get(&site.url("/private/first")).record.expect("a record");
    let follower = Follower::start(&place);
    let mut ids = vec![first];
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers = READERS.map(|words| scope.spawn(|| read_until(&over, &place, words)));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn({
                    let (serve, site) = (&serve, &site);
                    move || deny(serve, site, client)
                })
            })
            .collect();
        ids.extend(clients.into_iter().flat_map(|client| client.join().expect("a client")));
        over.store(true, Ordering::SeqCst);
        for (reader, words) in readers.into_iter().zip(READERS) {
            println!("{words}: {} times", reader.join().expect("a reader"));
        }
    });
    let followed = follower.end(ids.len());
    for id in &ids {
        assert_eq!(followed.get(id), Some(&1), "how often the follower saw {id}");
    }
    assert_eq!(followed.len(), ids.len(), "the follower saw records that nobody was told of");
    serve.stop();
    place.verified();
    let log = place.log();
    log.assert_whole();
    assert_eq!(log.records().len(), ids.len());
    let queried = place.run("audit query --format json");
    assert_eq!(String::from_utf8_lossy(&queried.stdout).lines().count(), ids.len());
}

/// The ids of the denials that one client provokes.
fn deny(serve: &Serve, site: &Site, client: usize) -> Vec<String> {
    let mut crawler = Crawler::new(serve.address());
    let urls =
        (0..DENIALS / CLIENTS).map(|number| site.url(&format!("/private/{client}/{number}")));
    urls.map(|url| crawler.get(&url).expect("an answer").record.expect("a record")).collect()
}

/// Runs a reader again and again, which always succeeds; how often.
#[track_caller]
fn read_until(over: &AtomicBool, place: &Place, words: &str) -> usize {
    let mut times = 0;
    while times == 0 || !over.load(Ordering::SeqCst) {
        let output = place.run(words);
        let [said, complaint] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success(), "{words}: {complaint}{said}");
        times += 1;
    }
    times
}

/// `courtesy audit query --follow`, and what it printed.
struct Follower {
    child: Child,
    printed: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Follower {
    fn start(place: &Place) -> Self {
        let mut command = place.command("audit query --follow --format json");
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a process");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let printed = Arc::<Mutex<Vec<String>>>::default();
        let lines = Arc::clone(&printed);
        let reader = thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Self { child, printed, reader: Some(reader) }
    }

    /// How often it printed which id; it ends when it has printed so many lines, and fails otherwise.
    #[track_caller]
    fn end(mut self, lines: usize) -> HashMap<String, usize> {
        let printed = Arc::clone(&self.printed);
        let printed = || printed.lock().unwrap_or_else(PoisonError::into_inner);
        until(&format!("the follower printed {lines} lines"), || printed().len() >= lines);
        self.stop();
        let mut times = HashMap::new();
        for line in printed().iter() {
            let record: Value = serde_json::from_str(line).expect("JSON");
            *times.entry(record["id"].as_str().expect("an id").to_owned()).or_default() += 1;
        }
        times
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            reader.join().expect("to the end");
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop();
    }
}

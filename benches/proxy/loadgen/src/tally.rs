//! What came of the requests, counted.

use std::collections::HashMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::connection::Failure;

pub struct Tally {
    /// From the moment a request was sent to the end of its response, in the measured time.
    latency: Histogram<u64>,
    /// TCP, CONNECT and TLS together.
    connect: Histogram<u64>,
    /// Answered in the measured time.
    requests: u64,
    /// Answered at any time: what a proxy's CPU time was spent on.
    requests_all: u64,
    bytes_all: u64,
    failures: HashMap<Failure, u64>,
    statuses: HashMap<u16, u64>,
    /// Connections whose TLS session is an earlier one.
    resumed: u64,
    /// Kept connections that turned out to be closed; their request was sent again on another.
    stale: u64,
}

impl Tally {
    pub fn new() -> Self {
        // A microsecond to ten minutes, in nanoseconds.
        let histogram = || Histogram::new_with_bounds(1_000, 600_000_000_000, 3).expect("bounds in order");
        Self {
            latency: histogram(),
            connect: histogram(),
            requests: 0,
            requests_all: 0,
            bytes_all: 0,
            failures: HashMap::new(),
            statuses: HashMap::new(),
            resumed: 0,
            stale: 0,
        }
    }

    pub fn connected(&mut self, took: Duration, resumed: bool) {
        self.resumed += u64::from(resumed);
        self.connect.saturating_record(took.as_nanos() as u64);
    }

    pub fn stale(&mut self) {
        self.stale += 1;
    }

    pub fn status(&mut self, status: u16) {
        *self.statuses.entry(status).or_default() += 1;
    }

    /// A request was answered; `took` is how long it was under way, in the measured time.
    pub fn answered(&mut self, body: u64, took: Option<Duration>) {
        self.requests_all += 1;
        self.bytes_all += body;
        if let Some(took) = took {
            self.requests += 1;
            self.latency.saturating_record(took.as_nanos() as u64);
        }
    }

    pub fn failed(&mut self, failure: Failure) {
        *self.failures.entry(failure).or_default() += 1;
    }

    pub fn json(&self) -> Map<String, Value> {
        let value = json!({
            "requests": self.requests,
            "requests_all": self.requests_all,
            "bytes_all": self.bytes_all,
            "connections": self.connect.len(),
            "resumed": self.resumed,
            "stale": self.stale,
            "errors": self.failures.values().sum::<u64>(),
            "failures": counts(&self.failures, |failure| format!("{failure:?}")),
            "statuses": counts(&self.statuses, u16::to_string),
            "latency_us": quantiles(&self.latency),
            "connect_us": quantiles(&self.connect),
        });
        match value {
            Value::Object(object) => object,
            _ => unreachable!("it was written as an object"),
        }
    }
}

fn counts<K>(counts: &HashMap<K, u64>, name: impl Fn(&K) -> String) -> Map<String, Value> {
    counts.iter().map(|(key, count)| (name(key), json!(count))).collect()
}

fn quantiles(histogram: &Histogram<u64>) -> Value {
    let microseconds = |quantile| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
    json!({ "p50": microseconds(0.5), "p99": microseconds(0.99), "max": microseconds(1.0) })
}

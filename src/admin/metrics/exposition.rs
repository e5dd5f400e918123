//! The paper that the numbers are written on, every number as it is now, and its two formats.

use std::fmt::{self, Write};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::runtime::counters::HistogramCounts;
use crate::types::timestamp::Timestamp;

/// The content of one response to `/metrics`.
#[derive(Debug, Default)]
pub struct Exposition(Registry);

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    /// The text format of Prometheus, which is older, and what every reader of it takes.
    Prometheus,
}

impl Format {
    /// The media type of the response.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

impl Exposition {
    /// Its name gets `_total` at the end.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, ConstCounter::new(value));
    }

    /// Its name gets `_bytes_total` at the end.
    pub fn bytes_counter(&mut self, name: &str, help: &str, value: u64) {
        self.0.register_with_unit(name, help, Unit::Bytes, ConstCounter::new(value));
    }

    /// Seconds. Its name gets `_seconds_total` at the end.
    pub fn seconds_counter(&mut self, name: &str, help: &str, value: f64) {
        self.0.register_with_unit(name, help, Unit::Seconds, ConstCounter::new(value));
    }

    /// One counter for each value of a label, those that are zero too: an alert sees the first step.
    pub fn counters<L: Into<String>>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) {
        let values =
            values.into_iter().map(|(value, number)| (vec![(label, value.into())], number));
        self.counters_by(name, help, values);
    }

    /// The same for each set of labels.
    pub fn counters_by(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        self.labelled(name, help, MetricType::Counter, values);
    }

    /// Adds a gauge with one value.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, ConstGauge::new(value));
    }

    /// Adds a gauge with a value for each label.
    pub fn gauges<L: Into<String>>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) {
        let values =
            values.into_iter().map(|(value, number)| (vec![(label, value.into())], number));
        self.labelled(name, help, MetricType::Gauge, values);
    }

    /// Its name gets `_bytes` at the end.
    pub fn bytes(&mut self, name: &str, help: &str, value: u64) {
        self.0.register_with_unit(name, help, Unit::Bytes, ConstGauge::new(value));
    }

    /// A length of time. Its name gets `_seconds` at the end.
    pub fn seconds(&mut self, name: &str, help: &str, seconds: f64) {
        self.0.register_with_unit(name, help, Unit::Seconds, ConstGauge::new(seconds));
    }

    /// A date, in seconds since 1970. Its name gets `_seconds` at the end.
    pub fn date(&mut self, name: &str, help: &str, date: Timestamp) {
        let seconds = date.millis() as f64 / 1000.0;
        self.0.register_with_unit(name, help, Unit::Seconds, ConstGauge::new(seconds));
    }

    /// A histogram for each value of a label. Its name gets `_seconds` at the end.
    pub fn latencies(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: Vec<(&'static str, HistogramCounts)>,
    ) {
        self.0.register_with_unit(name, help, Unit::Seconds, Histograms { label, values });
    }

    fn labelled(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        self.0.register(name, help, Labelled { kind, values: values.into_iter().collect() });
    }

    /// The whole text in `format`.
    pub fn text(&self, format: Format) -> String {
        let mut lines = String::new();
        text::encode(&mut lines, &self.0).expect("a text takes what is written to it");
        match format {
            Format::OpenMetrics => lines,
            Format::Prometheus => as_prometheus(&lines),
        }
    }
}

/// The older format names a counter by its sample, and has neither units nor an end mark.
fn as_prometheus(lines: &str) -> String {
    let kinds = lines.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let counters: Vec<_> =
        kinds.filter(|(_, kind)| *kind == "counter").map(|(name, _)| name).collect();
    let mut text = String::with_capacity(lines.len());
    for line in lines.lines() {
        let mut words = line.splitn(4, ' ');
        let line = match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("UNIT" | "EOF"), ..) => continue,
            (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(&name) => {
                writeln!(text, "# {what} {name}_total {rest}")
            }
            _ => writeln!(text, "{line}"),
        };
        line.expect("a text takes what is written to it");
    }
    text
}

/// Labels with their values.
pub type Labels = Vec<(&'static str, String)>;

/// One number for each set of labels.
#[derive(Debug)]
struct Labelled {
    kind: MetricType,
    values: Vec<(Labels, u64)>,
}

impl EncodeMetric for Labelled {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        self.values.iter().try_for_each(|(labels, number)| {
            let labels: Vec<_> =
                labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
            let mut encoder = encoder.encode_family(&labels)?;
            match self.kind {
                MetricType::Counter => encoder.encode_counter::<NoLabelSet, _, u64>(number, None),
                _ => encoder.encode_gauge(number),
            }
        })
    }

    fn metric_type(&self) -> MetricType {
        self.kind
    }
}

#[derive(Debug)]
struct Histograms {
    label: &'static str,
    values: Vec<(&'static str, HistogramCounts)>,
}

impl EncodeMetric for Histograms {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        self.values.iter().try_for_each(|(value, lengths)| {
            let labels = [(self.label, *value)];
            let mut encoder = encoder.encode_family(&labels)?;
            let buckets: Vec<_> = lengths.buckets().collect();
            encoder.encode_histogram::<NoLabelSet>(lengths.sum(), lengths.count(), &buckets, None)
        })
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_names_a_counter_by_its_sample() {
        let mut page = Exposition::default();
        page.counter("a", "All there are", 1);
        page.bytes_counter("b", "Bytes of them", 2);
        page.counters("c", "By label", "of", [("x", 3)]);
        page.bytes("d", "Bytes now", 4);
        let expected = "\
# HELP a_total All there are.
# TYPE a_total counter
a_total 1
# HELP b_bytes_total Bytes of them.
# TYPE b_bytes_total counter
b_bytes_total 2
# HELP c_total By label.
# TYPE c_total counter
c_total{of=\"x\"} 3
# HELP d_bytes Bytes now.
# TYPE d_bytes gauge
d_bytes 4
";
        assert_eq!(page.text(Format::Prometheus), expected);
        assert!(page.text(Format::OpenMetrics).ends_with("# EOF\n"));
    }
}

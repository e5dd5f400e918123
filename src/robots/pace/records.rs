//! The records that one or more runs of user-agent lines have together.

use super::hours::Window;
use super::value::Value;

/// The hours of one record that are kept for a group: a file that lists more is read as if the
/// further rates held all day, and as if no further window allowed visits.
pub(super) const WINDOWS_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) delay_ms: u32,
    pub(super) line: u32,
    /// `None`: all day.
    pub(super) window: Option<Window>,
}

/// The understood records of one or more runs of user-agent lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PaceRecords {
    /// The longest Crawl-delay, with its line; zero if all are zero.
    pub(super) crawl_delay: Option<(u32, u32)>,
    pub(super) rates: Vec<Rate>,
    pub(super) visits: Vec<(Window, u32)>,
}

/// Of a group without any record.
pub(super) static NOTHING: PaceRecords =
    PaceRecords { crawl_delay: None, rates: Vec::new(), visits: Vec::new() };

impl PaceRecords {
    pub(super) fn add(&mut self, value: Value, line: u32) {
        match value {
            Value::Delay(ms) => {
                if self.crawl_delay.is_none_or(|(longest, _)| ms > longest) {
                    self.crawl_delay = Some((ms, line));
                }
            }
            Value::Rate(delay_ms, window) => self.add_rate(Rate { delay_ms, line, window }),
            Value::Visit(window) => {
                if self.visits.len() < WINDOWS_MAX {
                    self.visits.push((window, line));
                }
            }
        }
    }

    /// Of rates that hold all day, the longest delay is enough.
    fn add_rate(&mut self, rate: Rate) {
        let window = rate.window.filter(|_| self.rates.len() < WINDOWS_MAX);
        let all_day = self.rates.iter_mut().find(|known| known.window.is_none());
        match (window, all_day) {
            (None, Some(known)) if known.delay_ms < rate.delay_ms => {
                *known = Rate { window, ..rate };
            }
            (None, Some(_)) => {}
            (window, _) => self.rates.push(Rate { window, ..rate }),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if let Some((ms, line)) = other.crawl_delay {
            self.add(Value::Delay(ms), line);
        }
        other.rates.iter().for_each(|rate| self.add_rate(*rate));
        other.visits.iter().for_each(|(window, line)| self.add(Value::Visit(*window), *line));
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.rates.capacity() * size_of::<Rate>()
            + self.visits.capacity() * size_of::<(Window, u32)>()
    }
}

//! A look at the process from outside, at one moment.

use std::fs;

use crate::testkit::processes::Serve;

/// What is seen of it.
#[derive(Clone, Copy, Debug)]
pub struct Gauge {
    /// Bytes in memory.
    pub resident: usize,
    pub descriptors: usize,
    pub threads: usize,
    /// Processor time so far, in hundredths of a second (proc_pid_stat(5)).
    pub ticks: u64,
}

impl Gauge {
    #[track_caller]
    pub fn of(serve: &Serve) -> Self {
        let place = |name: &str| format!("/proc/{}/{name}", serve.id());
        let count = |name: &str| fs::read_dir(place(name)).expect("a process that runs").count();
        let stat = fs::read_to_string(place("stat")).expect("a process that runs");
        let (_, fields) = stat.rsplit_once(") ").expect("its fields");
        let ticks =
            fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().expect("a number"));
        Self {
            resident: serve.resident(),
            descriptors: count("fd"),
            threads: count("task"),
            ticks: ticks.sum(),
        }
    }
}

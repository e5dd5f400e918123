//! The metrics of the process: those that every Prometheus client has, under their usual names, and
//! version and panics. A value that the system does not give is left out.

use std::fs;
use std::time::Duration;

use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::exposition::Exposition;
use crate::admin::panics;
use crate::admin::parts::MonitoredParts;

/// Adds these metrics to `page`.
pub(super) fn add(page: &mut Exposition, parts: &MonitoredParts) {
    let version = [(env!("CARGO_PKG_VERSION"), 1)];
    page.gauges("courtesy_build_info", "The running version", "version", version);
    // The name that every Prometheus client gives it.
    let help = "Start time of the process, in seconds since 1970";
    page.date("process_start_time", help, parts.started);
    add_usual(page);
    let help = "Panics; each closed at most one connection";
    page.counter("courtesy_panics", help, panics::count());
}

fn add_usual(page: &mut Exposition) {
    page.seconds_counter(
        "process_cpu",
        "Processor time in user and system mode, in seconds",
        cpu_time().as_secs_f64(),
    );
    if let Some([virtual_memory, resident]) = memory() {
        page.bytes("process_virtual_memory", "Virtual memory", virtual_memory);
        page.bytes("process_resident_memory", "Resident memory", resident);
    }
    if let Some(count) = open_files() {
        page.gauge("process_open_fds", "Open file descriptors", count);
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        page.gauge("process_max_fds", "Open file descriptors that there may be", limit);
    }
    if let Some(count) = entries("/proc/self/task") {
        page.gauge("process_threads", "Threads of the process", count);
    }
}

/// Of all threads, those that have ended too.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Virtual and resident memory in bytes: proc_pid_statm(5) has them in pages, in that order.
fn memory() -> Option<[u64; 2]> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').map(|number| number.parse::<u64>().ok());
    let page = page_size() as u64;
    Some([pages.next()??.saturating_mul(page), pages.next()??.saturating_mul(page)])
}

/// From Linux 6.2 on the directory says how many there are (proc_pid_fd(5)); before, its entries
/// are counted.
fn open_files() -> Option<u64> {
    const FILES: &str = "/proc/self/fd";
    match fs::metadata(FILES).ok()?.len() {
        // The directory is open itself while it is read.
        0 => entries(FILES).map(|count| count.saturating_sub(1)),
        count => Some(count),
    }
}

fn entries(directory: &str) -> Option<u64> {
    fs::read_dir(directory).ok().map(|entries| entries.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_process_has_is_counted() {
        let [virtual_memory, resident] = memory().unwrap();
        assert!(virtual_memory > resident && resident > 1 << 20, "{virtual_memory} {resident}");
        let files: Vec<_> = (0..500).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        assert!(open_files().unwrap() >= 500);
        drop(files);
        let (threads, before) = (entries("/proc/self/task").unwrap(), cpu_time());
        assert!(threads >= 1);
        while cpu_time() < before + Duration::from_millis(5) {
            std::hint::spin_loop();
        }
    }
}

//! Flags and counts that the bodies above hyper and the stream below it share.

use std::sync::atomic::{AtomicBool, AtomicUsize};

/// The state of one connection's reads and writes. Bodies and stream run in turn on one task.
#[derive(Debug, Default)]
pub struct IoState {
    /// There is memory for larger reads than the smallest.
    pub allows_large_reads: AtomicBool,
    /// With `allows_large_reads`: the response is to be read in the largest pieces.
    pub allows_largest_reads: AtomicBool,
    /// A read was larger than the smallest: hyper has enlarged its buffer, and never shrinks it.
    pub has_large_buffer: AtomicBool,
    /// Bytes that the system has accepted for the origin; wraps around.
    pub written: AtomicUsize,
    /// More of a request is still to come from its client.
    pub is_uploading: AtomicBool,
    /// The request body waits for `written` to grow.
    pub is_awaited: AtomicBool,
    /// The response to come is one to a fetch of a robots.txt, of which nothing is passed on but
    /// the file.
    pub reads_robots_txt: AtomicBool,
    /// With `reads_robots_txt`: the bytes of its head at most.
    pub head_bytes_max: AtomicUsize,
    /// The head of a response was not one that hyper takes.
    pub has_mended_head: AtomicBool,
}

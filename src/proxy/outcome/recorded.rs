//! A denial whose record has been given to the audit log: the only kind that is answered.

use std::ops::Deref;

use tracing::debug;

use super::denial::Denial;
use crate::audit::{Event, Writer};

/// A `T` whose record has been written, or has been lost: then the writer logs and counts the loss,
/// a later record says that one is missing, and the denial stands. Only [`Recorded::write`] makes
/// one, and only `decision/enforce.rs` calls it.
#[derive(Debug)]
pub struct Recorded<T> {
    inner: T,
    is_in_log: bool,
}

impl Recorded<Denial> {
    /// Returns when the operating system has the record of `denial`, or the write has failed.
    pub async fn write(denial: Denial, audit: &Writer) -> Self {
        let record = &denial.record;
        let written = audit.write(record.clone(), denial.blobs.clone()).await;
        if let Err(error) = &written {
            debug!(record = record.id, "{error}");
        }
        Self { inner: denial, is_in_log: written.is_ok() }
    }

    /// The same denial as one of event `denied`: an exemption does not hold without its record, and
    /// the one record of the request is lost already.
    pub fn without_exemption(mut self) -> Self {
        self.inner.record.event = Event::Denied;
        self
    }
}

impl<T> Recorded<T> {
    /// Whether the record is in the log; it was lost otherwise.
    pub const fn is_in_log(&self) -> bool {
        self.is_in_log
    }
}

impl<T> Deref for Recorded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

//! Writing the log: a [`Writer`](writer::Writer) queues lines for the one thread that owns the files; other threads
//! write evidence, look after closed files, and watch for a disk that does not answer.

pub mod active_file;
mod batch;
mod blob_tracker;
mod blob_writer;
mod commit;
pub mod handle;
pub mod health;
mod housekeeping;
pub mod in_flight;
pub mod lock;
mod log_dir;
pub mod message;
pub mod recover;
pub(super) mod reserve;
mod retention;
mod signals;
mod watchdog;
pub mod writer;
mod writer_thread;

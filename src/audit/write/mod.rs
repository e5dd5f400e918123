//! Writing the log: a [`Writer`](writer::Writer) queues lines for the one thread that owns the files; other threads
//! write evidence, look after closed files, and watch for a disk that does not answer.

pub mod active_file;
mod blob_tracker;
pub mod health;
mod housekeeping;
pub mod in_flight;
pub mod recover;
mod retention;
pub mod writer;
mod writer_thread;

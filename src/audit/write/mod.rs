//! Writing the log: a [`Writer`](writer::Writer) queues lines for the one thread that owns the files; other threads
//! write evidence and look after closed files.

pub mod active_file;
mod blob_tracker;
pub mod health;
pub mod recover;
mod retention;
pub mod writer;
pub mod writer_handle;
mod writer_thread;

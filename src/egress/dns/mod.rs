//! Resolves host names.

mod hosts_file;
mod resolver;

pub use resolver::Resolver;

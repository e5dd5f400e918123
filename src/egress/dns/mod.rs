//! Resolves host names.

mod hosts_file;
mod resolver;
mod system;

pub use resolver::Resolver;

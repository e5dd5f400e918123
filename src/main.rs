//! The program; everything it does is in the library.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// What is known of a million origins comes and goes in small pieces. The system's allocator keeps
/// growing with them; this one stays where it is.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    courtesy::cli::main()
}

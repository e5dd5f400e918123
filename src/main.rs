//! The program; everything it does is in the library.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// The store allocates and frees small pieces for up to a million origins. The system's allocator
/// keeps growing with them; jemalloc does not.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    courtesy::cli::main()
}

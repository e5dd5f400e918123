//! Evidence, read by others than us.

mod warc;
pub mod warcio;

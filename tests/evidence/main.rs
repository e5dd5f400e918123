//! Evidence, read by others than us.

mod warc;
mod warcio;

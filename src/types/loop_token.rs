//! The header by which a proxy recognises a request of its own that comes back by a parent proxy.

use http::HeaderName;

/// Its value is the mark of the process. `Via` has the mark as well, but parents may remove that.
pub const LOOP_TOKEN: HeaderName = HeaderName::from_static("courtesy-loop");

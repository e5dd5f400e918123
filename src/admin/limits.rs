//! Bounds that several files of `admin` share, with unit and source.

use std::time::Duration;

/// For a whole conversation with the admin listener, which is one request.
pub const ADMIN_DEADLINE: Duration = Duration::from_secs(10);

/// For the next line by the control socket, on either side: the store may have to be looked through.
pub const CONTROL_TIMEOUT: Duration = Duration::from_secs(30);

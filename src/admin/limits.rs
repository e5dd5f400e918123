//! Bounds that several files of `admin` share, with unit and source.

use std::time::Duration;

/// How long accepting pauses after it failed, as it does when no descriptors are left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// For a whole conversation with the admin listener, which is one request.
pub const ADMIN_DEADLINE: Duration = Duration::from_secs(10);

/// For the next line by the control socket, on either side: the store may have to be looked through.
pub const CONTROL_TIMEOUT: Duration = Duration::from_secs(30);

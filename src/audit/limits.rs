//! Bounds that several files of `audit` share, with unit and source.

use std::time::Duration;

/// Profiles under which one origin is remembered. More can only come of reloaded settings.
pub const PROFILES_PER_ORIGIN_MAX: usize = 16;

/// Bytes of a URL that a denial record keeps. With the other bounds, and every byte of the texts
/// escaped at its worst, a record stays under [`RECORD_LINE_BYTES_MAX`].
pub const RECORD_URL_BYTES_MAX: usize = 8 << 10;

/// Bytes of a User-Agent, or of any other text of a request, that a denial record keeps.
pub const RECORD_TEXT_BYTES_MAX: usize = 2 << 10;

/// Bytes of a path pattern that a denial record keeps.
pub const RECORD_PATTERN_BYTES_MAX: usize = 2 << 10;

/// Bytes of one denial record, its line end included: what readers need to hold.
pub const RECORD_LINE_BYTES_MAX: usize = 64 << 10;

/// Records that wait for the writer; a request that would be one more waits itself.
pub const RECORDS_WAITING_MAX: usize = 1024;

/// How often the log is tried again while it cannot be written, so that it heals without traffic.
pub const AUDIT_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How often the files of a log are listed again because others have renamed some meanwhile.
pub const LISTINGS_MAX: usize = 100;

/// Bytes of one blob that are read back; more than any `robots.max_size` in use.
pub const EVIDENCE_BYTES_MAX: u64 = 64 << 20;

/// Faults of a log that are described, and notes; the others are counted.
pub const FAULTS_DESCRIBED_MAX: usize = 20;

/// Captures that an archive of evidence is known to have; of more, one may be in it again.
pub const ARCHIVE_CAPTURES_MAX: usize = 800_000;

/// Bytes of lines in one file of a bundle, before the line that goes beyond it.
pub const BUNDLE_SEGMENT_BYTES: usize = 4 << 20;

/// Files in a bundle.
pub const BUNDLE_ENTRIES_MAX: usize = 200_000;

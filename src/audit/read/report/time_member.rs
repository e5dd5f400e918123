//! Members of a report that are times.

use serde::Serializer;

use crate::audit::print_time;
use crate::types::timestamp::Timestamp;

/// As a record has it.
pub(super) fn print_moment<S: Serializer>(
    moment: &Timestamp,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&print_time(*moment))
}

/// As above, or `null`.
pub(super) fn print_option<S: Serializer>(
    moment: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match moment {
        Some(moment) => print_moment(moment, serializer),
        None => serializer.serialize_none(),
    }
}

//! Whether the shown record is unchanged, by its line and those beside it.

use serde_json::{Value, json};

use crate::audit::read::{ChainCheck, Link};
use crate::cli::paint::Paint;

/// The faults, printed first; empty if there are none.
pub fn warnings(check: Option<&ChainCheck>, paint: Paint) -> String {
    let Some(check) = check.filter(|check| !check.holds()) else {
        return String::new();
    };
    let mut text = format!(
        "{}\n",
        paint.bad("WARNING: do not rely on this record; see courtesy audit verify")
    );
    faults(check).iter().for_each(|fault| text.push_str(&format!("  {}\n", paint.bad(fault))));
    text + "\n"
}

/// The same in a few words, beside the hash.
pub const fn words(check: &ChainCheck) -> &'static str {
    match (check.hash_holds, check.before, check.after) {
        (false, _, _) | (_, Link::Differs, _) | (_, _, Link::Differs) => "does not hold: see above",
        (true, Link::Fits, Link::Fits) => "the hash holds, and the lines before and after fit it",
        (true, Link::Absent, Link::Fits) => {
            "the hash holds, and the line after fits it; no line is before it"
        }
        (true, Link::Fits, Link::Absent) => {
            "the hash holds, and the line before fits it; it is the last line"
        }
        (true, Link::Absent, Link::Absent) => "the hash holds; it is the only line",
    }
}

/// The check of the chain around a record, as JSON.
pub fn json(check: &ChainCheck) -> Value {
    json!({
        "holds": check.holds(),
        "hash_holds": check.hash_holds,
        "before": check.before,
        "after": check.after,
        "faults": faults(check),
    })
}

fn faults(check: &ChainCheck) -> Vec<&'static str> {
    let faults = [
        (
            !check.hash_holds,
            "it was changed after being written: its text is not what its hash was made of",
        ),
        (
            check.before == Link::Differs,
            "the line before it is not the one it was chained to: one of the two was replaced, or lines \
             between them removed",
        ),
        (
            check.after == Link::Differs,
            "the line after it was chained to another line: one of the two was replaced, or lines between \
             them removed",
        ),
    ];
    faults.into_iter().filter(|(is_so, _)| *is_so).map(|(_, fault)| fault).collect()
}

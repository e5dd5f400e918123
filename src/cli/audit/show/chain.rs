//! Whether the shown record is unchanged, by its line and those beside it.

use serde_json::{Value, json};

use crate::audit::read::{Beside, Standing};
use crate::cli::paint::Paint;

/// The faults, printed first; empty if there are none.
pub fn warnings(standing: Option<&Standing>, paint: Paint) -> String {
    let Some(standing) = standing.filter(|standing| !standing.holds()) else {
        return String::new();
    };
    let mut text = format!(
        "{}\n",
        paint.bad("WARNING: do not rely on this record; see courtesy audit verify")
    );
    faults(standing).iter().for_each(|fault| text.push_str(&format!("  {}\n", paint.bad(fault))));
    text + "\n"
}

/// The same in a few words, beside the hash.
pub const fn words(standing: &Standing) -> &'static str {
    match (standing.hash_holds, standing.before, standing.after) {
        (false, _, _) | (_, Beside::Differs, _) | (_, _, Beside::Differs) => {
            "does not hold: see above"
        }
        (true, Beside::Fits, Beside::Fits) => {
            "the hash holds, and the lines before and after fit it"
        }
        (true, Beside::Absent, Beside::Fits) => {
            "the hash holds, and the line after fits it; no line is before it"
        }
        (true, Beside::Fits, Beside::Absent) => {
            "the hash holds, and the line before fits it; it is the last line"
        }
        (true, Beside::Absent, Beside::Absent) => "the hash holds; it is the only line",
    }
}

pub fn json(standing: &Standing) -> Value {
    json!({
        "holds": standing.holds(),
        "hash_holds": standing.hash_holds,
        "before": standing.before,
        "after": standing.after,
        "faults": faults(standing),
    })
}

fn faults(standing: &Standing) -> Vec<&'static str> {
    let faults = [
        (
            !standing.hash_holds,
            "it was changed after being written: its text is not what its hash was made of",
        ),
        (
            standing.before == Beside::Differs,
            "the line before it is not the one it was chained to: one of the two was replaced, or lines \
             between them removed",
        ),
        (
            standing.after == Beside::Differs,
            "the line after it was chained to another line: one of the two was replaced, or lines between \
             them removed",
        ),
    ];
    faults.into_iter().filter(|(is_so, _)| *is_so).map(|(_, fault)| fault).collect()
}

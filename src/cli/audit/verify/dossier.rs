//! A dossier, checked as it was handed over.

use std::path::Path;

use serde_json::json;

use crate::audit::read::dossier::{self, CheckedDossier};
use crate::audit::record::verifier_key::VerifierKey;
use crate::cli::audit::form::printable;
use crate::cli::audit::report::words::{number, plural};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Form, print};

/// Checks the one in `dir`, and says what it is.
pub fn verify(dir: &Path, keys: &[VerifierKey], form: Form) -> Result<Exit, Failure> {
    let outcome = dossier::check(dir, keys);
    print(match (form, &outcome) {
        (Form::Text, Ok(checked)) => text(checked),
        (Form::Text, Err(fault)) => format!("The dossier does not hold: {fault}\n"),
        (Form::Json, Ok(checked)) => {
            format!("{:#}\n", json!({ "holds": true, "dossier": checked }))
        }
        (Form::Json, Err(fault)) => {
            format!("{:#}\n", json!({ "holds": false, "fault": fault.to_string() }))
        }
    })?;
    Ok(if outcome.is_ok() { Exit::Done } else { Exit::No })
}

fn text(checked: &CheckedDossier) -> String {
    let CheckedDossier { origin, lines, evidence, checkpoint, size, key, is_key_given, published } =
        checked;
    let signed = match (key, is_key_given) {
        (Some(key), true) => format!("signed by {key}, which was asked for"),
        (Some(key), false) => {
            format!(
                "signed by the key that it names, {key}: ask its owner for that key by another way, and give it with --key"
            )
        }
        (None, _) => "not signed".into(),
    };
    let published = published.iter().map(|line| {
        format!("It goes on from the checkpoint of line {} that was published.\n", number(*line))
    });
    format!(
        "The dossier holds: {} about {}, of a log of {}, {}.\nIts checkpoint is {}.\n{}{} of evidence, each with the content that it is named by.\n",
        plural(*lines, "line"),
        printable(origin),
        plural(*size, "line"),
        printable(checkpoint),
        printable(&signed),
        published.collect::<String>(),
        plural(*evidence, "piece"),
    )
}

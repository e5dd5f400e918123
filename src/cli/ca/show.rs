//! `courtesy ca show`: subject, fingerprint and validity of the CA.

use clap::Args;
use serde::Serialize;

use super::open::open;
use crate::ca::{Authority, Certificate, print_date};
use crate::cli::exit::Failure;
use crate::cli::flags::ConfigFlags;
use crate::cli::output::print;
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy ca show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy ca show
  courtesy ca show --json | jq .days_left")]
pub struct ShowArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

/// A CA as printed.
#[derive(Serialize)]
struct Shown {
    subject: String,
    /// SHA-256.
    fingerprint: String,
    not_before: String,
    not_after: String,
    days_left: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Earlier CAs that clients should continue to trust.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    previous: Vec<Shown>,
}

/// Runs `courtesy ca show`.
pub fn run(args: &ShowArgs) -> Result<(), Failure> {
    let shown = Shown::of(&open(&args.config)?, SystemClock.wall());
    print(if args.json {
        serde_json::to_string_pretty(&shown).expect("texts and numbers") + "\n"
    } else {
        shown.text()
    })
}

impl Shown {
    fn of(ca: &Authority, now: Timestamp) -> Self {
        let previous = ca.previous().iter().map(|former| Self::certificate(former, now)).collect();
        let file = Some(ca.file().display().to_string());
        Self { file, previous, ..Self::certificate(ca.certificate(), now) }
    }

    fn certificate(certificate: &Certificate, now: Timestamp) -> Self {
        Self {
            subject: certificate.subject().to_owned(),
            fingerprint: certificate.fingerprint(),
            not_before: print_date(certificate.not_before()),
            not_after: print_date(certificate.not_after()),
            days_left: certificate.days_left(now),
            file: None,
            previous: Vec::new(),
        }
    }

    fn text(&self) -> String {
        let file =
            self.file.iter().map(|file| format!("file         {file}\n")).collect::<String>();
        let previous: String = self
            .previous
            .iter()
            .map(|former| format!("\nto be trusted, too:\n{}", former.text()))
            .collect();
        format!(
            "subject      {}\nfingerprint  SHA-256 {}\nvalid        {} to {}, {} days left\n{file}{previous}",
            self.subject, self.fingerprint, self.not_before, self.not_after, self.days_left
        )
    }
}

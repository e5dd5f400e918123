//! `courtesy doctor`: is everything there that a crawl needs, and does each client of this machine
//! follow the variables. It makes its own site on loopback, and contacts no other, but the shared
//! engine of the settings.

mod attempt;
mod engine;
mod finding;
mod machine;
mod trial;

use clap::Args;

use super::exit::{Exit, Failure};
use super::flags::ConfigFlags;
use super::temporary_dir::{Purpose, TemporaryDir};
use super::{environment, logging, output};
use crate::ca::TABLE;
use crate::config::{Log, LogLevel};
use finding::{Finding, State};

/// The arguments of `courtesy doctor`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy doctor
  courtesy doctor curl python
  courtesy doctor --config /etc/courtesy/config.toml --json | jq '.[] | select(.state == \"bad\")'

✓ it is well · ✗ it is not, and what to do · ! a client that is known not to follow as it comes, and
what to do · – it could not be tried. Ends with 1 when something is not well (✗). Clients are given
the variables of `courtesy env` and asked for two pages of a test site on loopback: one that its
robots.txt allows and one that it does not.")]
pub struct DoctorArgs {
    /// Try only these clients, as in: curl python node [default: all that are installed]
    #[arg(value_name = "CLIENT", value_parser = client_name)]
    clients: Vec<String>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

/// Runs `courtesy doctor`.
pub fn run(args: &DoctorArgs) -> Result<Exit, Failure> {
    // What is wrong is said as a finding, once.
    logging::init(&Log { level: LogLevel::Error, ..Log::default() });
    let report = Report { json: args.json, findings: Vec::new() };
    let findings = examine(args, report)?;
    let well = findings.iter().all(|finding| finding.state != State::Bad);
    Ok(if well { Exit::Done } else { Exit::No })
}

/// A name from the command line: that of a client, or the beginning of one.
fn client_name(text: &str) -> Result<String, String> {
    if TABLE.trials.iter().any(|client| client.name.starts_with(text)) {
        return Ok(text.to_owned());
    }
    let names: Vec<_> = TABLE.trials.iter().map(|client| &*client.name).collect();
    Err(format!("the clients that can be tried are {}", names.join(", ")))
}

/// One finding after the other. What rests on something that is bad is not tried.
fn examine(args: &DoctorArgs, mut report: Report) -> Result<Vec<Finding>, Failure> {
    let (settings, finding) = machine::configuration(&args.config);
    report.add(finding)?;
    if let Some(mut settings) = settings {
        for finding in machine::listeners(&settings) {
            report.add(finding)?;
        }
        if let Some(finding) = machine::users(&settings) {
            report.add(finding)?;
        }
        for finding in engine::parents(&settings, environment::is_set) {
            report.add(finding)?;
        }
        for finding in engine::redirect(&settings) {
            report.add(finding)?;
        }
        let finding = machine::state_dir(&settings);
        let is_unusable = finding.state == State::Bad;
        report.add(finding)?;
        if !settings.state_dir.as_os_str().is_empty() {
            report.add(machine::check_records(&settings))?;
            report.add(machine::check_store(&settings))?;
        }
        // What is tried needs one all the same.
        let other = is_unusable.then(|| TemporaryDir::new(Purpose::State)).transpose()?;
        if let Some(other) = &other {
            other.path().clone_into(&mut settings.state_dir);
        }
        for finding in engine::engine(&settings) {
            report.add(finding)?;
        }
        report.add(machine::authority(&settings))?;
        report.add(machine::tls_to_origins())?;
        report.add(machine::sealed_runs())?;
        match trial::Trial::begin(&settings) {
            Ok(trial) => {
                for finding in trial.proxy() {
                    report.add(finding)?;
                }
                for finding in attempt::try_all(&trial, &settings, &args.clients)? {
                    report.add(finding)?;
                }
            }
            Err(failure) => report.add(trial::not_begun(&failure))?,
        }
    }
    report.end()
}

/// Findings on their way out: each as soon as it is there, or all at the end as JSON.
struct Report {
    json: bool,
    findings: Vec<Finding>,
}

impl Report {
    fn add(&mut self, finding: Finding) -> Result<(), Failure> {
        if !self.json {
            output::print(finding.to_string())?;
        }
        self.findings.push(finding);
        Ok(())
    }

    fn end(self) -> Result<Vec<Finding>, Failure> {
        if self.json {
            let text =
                serde_json::to_string_pretty(&self.findings).expect("findings are plain values");
            output::print(text + "\n")?;
        }
        Ok(self.findings)
    }
}

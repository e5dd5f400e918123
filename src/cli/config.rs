//! `courtesy config`: checks, shows and documents the settings.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, Subcommand};

use super::environment;
use super::exit::{Exit, Failure};
use super::flags::{ConfigFlags, ServeFlags};
use super::output::{Form, print};
use super::serve::replica_notice;
use crate::ca::CA_REMEDY;
use crate::config::{DEFAULT_FILE, LoadReport, Loaded, Settings};
use crate::runtime::clock::{Clock, SystemClock};
use crate::server::{SetupErrors, prepare};
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy config`.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Do what `serve` does before it listens; exit as it would, with 78 when the settings cannot
    /// be used
    #[command(after_help = "\
Examples:
  courtesy config check courtesy.toml && systemctl restart courtesy
  courtesy config check --settings-only courtesy.toml      on another machine than the proxy's

Reads the settings and the files that they name (users, token, CA, extra roots), and looks whether
the audit directory and the CA could be made. It changes nothing, and works beside a running proxy.
Run it as the user of the proxy: what may be read and written is another thing for root. All faults
are printed in one round, unless the file cannot be parsed. Ends with the exit code of `serve`: 78
for settings and what they name, 77 for permissions, 74 for input and output.")]
    Check {
        /// Check the settings alone, not the files and directories that they name
        #[arg(long)]
        settings_only: bool,
        /// The file to check, instead of the one that would be found
        #[arg(value_name = "FILE", conflicts_with = "config")]
        file: Option<PathBuf>,
        #[command(flatten)]
        flags: ConfigFlags,
        #[command(flatten)]
        serve: ServeFlags,
    },
    /// Print every setting as it is in effect, and where it came from
    #[command(after_help = "\
Examples:
  courtesy config show | grep -v '# default'
  courtesy config show --format json | jq '.[] | select(.key == \"robots.profile\")'")]
    Show {
        #[arg(long, value_enum, default_value_t)]
        format: Form,
        #[command(flatten)]
        flags: ConfigFlags,
        #[command(flatten)]
        serve: ServeFlags,
    },
    /// Print a commented file with every setting and its default
    #[command(after_help = "Example:\n  courtesy config default > courtesy.toml")]
    Default,
}

/// Runs `courtesy config`.
pub fn run(args: ConfigArgs) -> Result<Exit, Failure> {
    match args.command {
        Command::Check { settings_only, file, mut flags, serve } => {
            flags.state.config = file.or(flags.state.config);
            check(flags.load_and_report(&serve), settings_only)?;
        }
        Command::Show { format, flags, serve } => show(&flags.load(Some(&serve))?, format)?,
        Command::Default => print(DEFAULT_FILE)?,
    }
    Ok(Exit::Done)
}

fn check(report: LoadReport, settings_only: bool) -> Result<(), Failure> {
    let now = SystemClock.wall();
    let prepared = match &report.loaded {
        Some(loaded) if !settings_only => try_prepare(&loaded.settings, &report, now),
        _ => Ok(None),
    };
    let (loaded, invalidity) = match (report.into_result(), prepared) {
        (Ok(loaded), Ok(invalidity)) => (loaded, invalidity),
        (Ok(_), Err(errors)) => return Err(errors.into()),
        (Err(refusal), Ok(_)) => return Err(refusal.into()),
        (Err(refusal), Err(errors)) => {
            let mut failure = Failure::from(refusal);
            // Each on a line of its own, as those of the settings are.
            let errors: String = errors.lines().map(|line| format!("\n  {line}")).collect();
            failure.error = anyhow!("{}{errors}", failure.error);
            return Err(failure);
        }
    };
    let what = match &loaded.file {
        Some(file) => file.display().to_string(),
        None => "no file, only defaults and environment".into(),
    };
    let mut notices = loaded.notices(now);
    notices.extend(replica_notice(&loaded.settings));
    notices
        .extend(invalidity.map(|it| format!("HTTPS will not be intercepted: {it}; {CA_REMEDY}")));
    let notices: String = notices.iter().map(|notice| format!("note: {notice}\n")).collect();
    print(format!("{notices}{what}: ok\n"))
}

/// The problems that `serve` would find in the files that the settings name or, if it would start,
/// why its CA is not valid. Problems of the settings themselves are not repeated.
fn try_prepare(
    settings: &Settings,
    report: &LoadReport,
    now: Timestamp,
) -> Result<Option<String>, SetupErrors> {
    let ca = settings.ca(environment::credentials_directory().as_deref());
    match prepare(settings, &ca, now) {
        Ok(prepared) => Ok(prepared.ca_invalidity().map(str::to_owned)),
        Err(SetupErrors(mut errors)) => {
            errors.retain(|error| !report.has_placeholder(error.settings()));
            if errors.is_empty() { Ok(None) } else { Err(SetupErrors(errors)) }
        }
    }
}

fn show(loaded: &Loaded, format: Form) -> Result<(), Failure> {
    let settings = loaded.effective();
    let text = match format {
        Form::Text => {
            let file = match &loaded.file {
                Some(file) => format!("# read from {}\n", file.display()),
                None => "# read from no file: there is none\n".to_owned(),
            };
            file + &settings.iter().map(|setting| format!("{setting}\n")).collect::<String>()
        }
        Form::Json => {
            serde_json::to_string_pretty(&settings).expect("settings are plain values") + "\n"
        }
    };
    print(text)
}

//! `courtesy config`: is it right, what is in effect and why, what could be set.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::exit::{Exit, Failure};
use super::flags::{ConfigFlags, ServeFlags};
use super::output::print;
use crate::clock::{Clock, SystemClock};
use crate::config::{DEFAULT_FILE, Loaded};

#[derive(Args, Debug)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Check the settings as `serve` would at start; exit with 78 when they cannot be used
    #[command(after_help = "Example:\n  courtesy config check courtesy.toml && systemctl restart courtesy")]
    Check {
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
        format: Format,
        #[command(flatten)]
        flags: ConfigFlags,
        #[command(flatten)]
        serve: ServeFlags,
    },
    /// Print a commented file with every setting and its default
    #[command(after_help = "Example:\n  courtesy config default > courtesy.toml")]
    Default,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default)]
enum Format {
    #[default]
    Text,
    Json,
}

pub fn run(args: ConfigArgs) -> Result<Exit, Failure> {
    match args.command {
        Command::Check { file, mut flags, serve } => {
            flags.state.config = file.or(flags.state.config);
            check(&flags.load(Some(&serve))?)?;
        }
        Command::Show { format, flags, serve } => show(&flags.load(Some(&serve))?, format)?,
        Command::Default => print(DEFAULT_FILE)?,
    }
    Ok(Exit::Done)
}

fn check(loaded: &Loaded) -> Result<(), Failure> {
    let what = match &loaded.file {
        Some(file) => file.display().to_string(),
        None => "no file, only defaults and environment".into(),
    };
    let notices = loaded.settings.notices(SystemClock.wall());
    let notices: String = notices.iter().map(|notice| format!("note: {notice}\n")).collect();
    print(format!("{notices}{what}: ok\n"))
}

fn show(loaded: &Loaded, format: Format) -> Result<(), Failure> {
    let settings = loaded.effective();
    let text = match format {
        Format::Text => settings.iter().map(|setting| format!("{setting}\n")).collect(),
        Format::Json => serde_json::to_string_pretty(&settings).expect("settings are plain values") + "\n",
    };
    print(text)
}

//! `courtesy audit`: search, show, verify and export the log of denials.

mod changes;
pub mod difference;
pub mod dossier;
mod export;
pub mod filters;
pub mod form;
mod head;
pub mod history;
mod key;
pub mod line_selector;
pub mod log_source;
pub mod notices;
pub mod progress;
mod query;
pub mod remarks;
mod repeats;
mod replay;
pub mod report;
pub mod search;
pub mod show;
mod siem;
pub mod verify;

use clap::{Args, Subcommand};

use super::exit::{Exit, Failure};

/// The arguments of `courtesy audit`.
#[derive(Args, Debug)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Print the records that match, or follow them as they come
    Query(query::QueryArgs),
    /// Explain one record, with its robots.txt
    Show(show::ShowArgs),
    /// Print where the chain stands, to be published
    Head(head::HeadArgs),
    /// Print the keys that sign its checkpoints
    Key(key::KeyArgs),
    /// Write the records that match, or their evidence, to a file
    Export(export::ExportArgs),
    /// Check the chain, the records and their evidence
    Verify(verify::VerifyArgs),
    /// Decide every record again, and make delays and changes again, from their evidence
    Replay(replay::ReplayArgs),
    /// Print the versions of a site's robots.txt, and what was asked under each
    History(history::HistoryArgs),
    /// Print the changes of robots.txt files, with what each added and removed
    Changes(changes::ChangesArgs),
    /// Sum up a period
    Report(report::ReportArgs),
}

/// Runs `courtesy audit`.
pub fn run(args: &AuditArgs) -> Result<Exit, Failure> {
    match &args.command {
        Command::Query(args) => query::run(args),
        Command::Show(args) => show::run(args),
        Command::Head(args) => head::run(args),
        Command::Key(args) => key::run(args),
        Command::Export(args) => export::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Replay(args) => replay::run(args),
        Command::History(args) => history::run(args),
        Command::Changes(args) => changes::run(args),
        Command::Report(args) => report::run(args),
    }
}

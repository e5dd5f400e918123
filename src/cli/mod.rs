//! The command line: one file per subcommand. A new one is its module, a variant of `Command` and
//! an arm of `run`. The messages at the end of a command are printed here.

mod audit;
mod ca;
mod check;
mod clients;
mod completions;
mod config;
mod console;
mod demo;
mod doctor;
mod engine;
mod env;
pub mod environment;
mod ephemeral_proxy;
pub mod exit;
pub mod flags;
mod health;
pub mod logging;
pub mod output;
mod redirect;
mod run;
mod runs;
mod serve;
mod store;
mod temporary_dir;
pub mod users;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use exit::{Exit, Failure};

/// A proxy that makes any crawler obey robots.txt
///
/// Point a crawler's HTTP proxy at courtesy: what a site's robots.txt disallows is refused with an
/// answer that says why, and leaves a record; everything else is forwarded.
#[derive(Parser, Debug)]
#[command(name = "courtesy", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Exit codes: 0 done (check: allowed) · 1 no (check: disallowed; health: not ready) · 2 usage ·
3 check: undecided · 69 a needed thing is not there · 74 input or output · 77 permission ·
78 configuration.
`run` ends as the command does.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run the proxy
    Serve(serve::ServeArgs),
    /// Report whether the running proxy is ready
    Health(health::HealthArgs),
    /// Have the running proxy read its settings again, and tell what came of it
    Reload(serve::reload::ReloadArgs),
    /// Run a command with a proxy of its own for all of its requests
    Run(run::RunArgs),
    /// List the runs whose records are kept
    Runs(runs::RunsArgs),
    /// Become the command of a sealed run
    #[command(hide = true)]
    Seal(run::sealed::seal::SealArgs),
    /// Print, apply, remove or check rules of the network that redirect a crawler to the proxy
    Redirect(redirect::RedirectArgs),
    /// Print the variables that send clients through the proxy
    Env(env::EnvArgs),
    /// Show what robots.txt allows, and by which line
    Check(check::CheckArgs),
    /// Show what the proxy does, on scripted sites and without a network
    Demo(demo::DemoArgs),
    /// Add, remove or list users, which have a name and a password
    Users(users::UsersArgs),
    /// Show, export or rotate the certificate authority that clients trust
    Ca(ca::CaArgs),
    /// Show, forget or export what is known of origins
    Store(store::StoreArgs),
    /// List the proxies that share an engine
    Engine(engine::EngineArgs),
    /// Diagnose problems of a crawl, and find which clients follow the variables
    Doctor(doctor::DoctorArgs),
    /// Read the log of denials: query, show, verify, replay, report
    Audit(Box<audit::AuditArgs>),
    /// Show the log of denials as pages in a browser
    Console(Box<console::ConsoleArgs>),
    /// Check, show or print the settings
    Config(config::ConfigArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page
    Man(completions::ManArgs),
}

/// The whole program. The command line is the process's own.
pub fn main() -> ExitCode {
    // On a usage error clap says what is wrong and ends the process with 2.
    match run(Cli::parse().command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("error: {:#}", failure.error);
            if let Some(remedy) = failure.remedy() {
                eprintln!("note: {remedy}");
            }
            failure.exit.into()
        }
    }
}

fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Reload(args) => serve::reload::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Runs(args) => runs::run(&args),
        Command::Seal(args) => run::sealed::seal::run(&args),
        Command::Redirect(args) => redirect::run(&args),
        Command::Env(args) => env::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Users(args) => users::run(&args),
        Command::Ca(args) => ca::run(args),
        Command::Audit(args) => audit::run(&args),
        Command::Console(args) => console::run(&args),
        Command::Store(args) => store::run(args),
        Command::Engine(args) => engine::run(&args),
        Command::Config(args) => config::run(args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Man(args) => completions::run_man(args, Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where help is wrapped.
    const COLUMNS_MAX: usize = 100;

    fn check(command: &clap::Command) {
        let words = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in words.lines() {
            assert!(line.chars().count() <= COLUMNS_MAX, "{}: {line}", command.get_name());
        }
        command.get_subcommands().for_each(check);
    }

    #[test]
    fn no_line_of_help_is_broken_by_the_terminal() {
        check(&Cli::command());
    }
}

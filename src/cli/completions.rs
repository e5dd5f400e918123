//! `courtesy completions`: completions of the command line for a shell.

use clap::{Args, Command};
use clap_complete::Shell;

use super::exit::{Exit, Failure};
use super::output::print;

/// The arguments of `courtesy completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy completions bash > ~/.local/share/bash-completion/completions/courtesy
  courtesy completions fish > ~/.config/fish/completions/courtesy.fish")]
pub struct CompletionsArgs {
    /// The shell to complete in
    shell: Shell,
}

/// `command` is the whole command line.
pub fn run(args: CompletionsArgs, mut command: Command) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "courtesy", &mut script);
    print(script)?;
    Ok(Exit::Done)
}

//! `courtesy completions`: what the shell needs to complete our command line.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use super::exit::{Exit, Failure};
use super::output::print;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy completions bash > ~/.local/share/bash-completion/completions/courtesy
  courtesy completions fish > ~/.config/fish/completions/courtesy.fish")]
pub struct CompletionsArgs {
    /// The shell to complete in
    shell: Shell,
}

pub fn run(args: CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "courtesy", &mut script);
    print(script)?;
    Ok(Exit::Done)
}

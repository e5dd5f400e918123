//! `courtesy completions`: completions of the command line for a shell.

use std::path::PathBuf;

use clap::{Args, Command, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;

use super::exit::{Exit, Failure, OrExit};
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
pub fn run(args: &CompletionsArgs, command: Command) -> Result<Exit, Failure> {
    print(script(args.shell, command))?;
    Ok(Exit::Done)
}

/// clap's script, with what only the machine knows: the runs that are kept, behind `--run`, and the
/// commands that `run` can start, by the shell's own completion of commands.
fn script(shell: Shell, command: Command) -> Vec<u8> {
    let mut command = without_internal(command)
        .mut_subcommand("run", |run| run.mut_arg("command", |it| it.value_hint(COMMAND)));
    let run = command.find_subcommand("run").expect("it is a subcommand");
    let flags = flags_with_value(run);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "courtesy", &mut script);
    let Ok(plain) = str::from_utf8(&script) else { return script };
    match shell {
        Shell::Bash => {
            let renamed = plain.replacen("_courtesy() {", "_courtesy_words() {", 1);
            (renamed + &BASH.replace("FLAGS", &flags)).into_bytes()
        }
        Shell::Zsh => {
            let (first, rest) = plain.split_once('\n').unwrap_or((plain, ""));
            format!(
                "{first}\n{ZSH}{}",
                rest.replace(":last|ID:_default", ":last|ID:_courtesy_runs")
            )
            .into_bytes()
        }
        Shell::Fish => {
            let is_run = |line: &str| line.contains(" -l run ") && line.ends_with("' -r");
            let line = |line: &str| match line.strip_suffix(" -r") {
                Some(flag) if is_run(line) => format!("{flag} -x -a \"(__fish_courtesy_runs)\"\n"),
                _ => format!("{line}\n"),
            };
            (plain.lines().map(line).collect::<String>() + &FISH.replace("FLAGS", &flags))
                .into_bytes()
        }
        _ => script,
    }
}

const COMMAND: ValueHint = ValueHint::CommandWithArguments;

/// Without the commands that the program calls itself by.
fn without_internal(command: Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    let visible = command.get_subcommands().filter(|it| !it.is_hide_set()).cloned();
    Command::new("courtesy").version(env!("CARGO_PKG_VERSION")).about(about).subcommands(visible)
}

/// The flags of `command` that are followed by a value: it is not the command that `run` starts.
fn flags_with_value(command: &Command) -> String {
    let with_value = command.get_arguments().filter(|it| it.get_action().takes_values());
    let flags: Vec<_> = with_value.filter_map(|it| Some(format!("--{}", it.get_long()?))).collect();
    flags.join(" ")
}

/// The directory of the runs is that of `courtesy run` without `--state-dir`.
const BASH: &str = r#"
_courtesy() {
    local at word flags=" FLAGS "
    if [[ ${COMP_WORDS[1]} == run ]]; then
        for ((at = 2; at < COMP_CWORD; at++)); do
            word=${COMP_WORDS[at]}
            if [[ $word == -- ]]; then
                ((at++))
                break
            elif [[ $word == -* ]]; then
                [[ ${COMP_WORDS[at + 1]} == = ]] && ((at += 2)) && continue
                [[ $flags == *" $word "* ]] && ((at++))
            else
                break
            fi
        done
        if ((at < COMP_CWORD)); then
            if declare -F _comp_command_offset > /dev/null; then
                _comp_command_offset "$at"
            elif declare -F _command_offset > /dev/null; then
                _command_offset "$at"
            else
                COMPREPLY=()
            fi
            return 0
        elif ((at == COMP_CWORD)) && [[ $2 != -* || ${COMP_WORDS[at - 1]} == -- ]]; then
            COMPREPLY=($(compgen -c -- "$2"))
            return 0
        fi
    elif [[ $3 == --run || $3 == = && ${COMP_WORDS[COMP_CWORD - 2]} == --run ]]; then
        local runs=${COURTESY__STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/courtesy}/runs
        COMPREPLY=($(compgen -W "last $(command ls "$runs" 2> /dev/null)" -- "${2#=}"))
        return 0
    fi
    _courtesy_words "$@"
}
"#;

const ZSH: &str = r"
_courtesy_runs() {
    local -a runs
    runs=(${COURTESY__STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/courtesy}/runs/*(N:t))
    compadd -- last $runs
}
";

/// The lone hyphen ends the options of fish's own function: what follows are those of `run`.
const FISH: &str = r#"
function __fish_courtesy_runs
    set -l state $COURTESY__STATE_DIR
    test -n "$state"; or set state $XDG_STATE_HOME/courtesy
    test -n "$XDG_STATE_HOME$COURTESY__STATE_DIR"; or set state ~/.local/state/courtesy
    echo last
    command ls $state/runs 2> /dev/null
end

complete -c courtesy -n "__fish_courtesy_using_subcommand run" -x -a "(__fish_complete_subcommand --fcs-skip=2 - FLAGS)"
"#;

/// The arguments of `courtesy man`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy man | man -l -
  courtesy man --dir /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Write one page for each subcommand into DIR instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// `command` is the whole command line.
pub fn run_man(args: ManArgs, command: Command) -> Result<Exit, Failure> {
    match args.dir {
        Some(dir) => {
            std::fs::create_dir_all(&dir)?;
            clap_mangen::generate_to(command, dir).or_exit(Exit::InputOutput)?;
        }
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            print(page)?;
        }
    }
    Ok(Exit::Done)
}

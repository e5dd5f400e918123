//! Reads a password on the terminal without echo, or as one line of standard input. Never an
//! argument, which every process on the machine could see.

use std::io::{self, BufRead, IsTerminal, Stdin, Write};

use anyhow::anyhow;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::super::exit::{Exit, Failure, OrExit};
use crate::clients::Password;
use crate::clients::password::PASSWORD_BYTES_MAX;

/// A new one: on a terminal it is asked for twice.
pub fn new(name: &str) -> Result<Password, Failure> {
    let password = ask(&format!("Password of {name}: "))?;
    if io::stdin().is_terminal() && ask("Once more: ")? != password {
        return Err(anyhow!("the two are not the same: nothing is changed")).or_exit(Exit::Usage);
    }
    Ok(password)
}

/// An existing one.
pub fn ask(prompt: &str) -> Result<Password, Failure> {
    let stdin = io::stdin();
    let line = if stdin.is_terminal() { unseen(&stdin, prompt)? } else { line(stdin.lock())? };
    Password::new(&line).map_err(|problem| anyhow!("{problem}")).or_exit(Exit::Usage)
}

fn unseen(terminal: &Stdin, prompt: &str) -> io::Result<String> {
    eprint!("{prompt}");
    io::stderr().flush()?;
    let _unseen = Unseen::begin(terminal)?;
    line(terminal.lock())
}

/// The first line, without its end; truncated beyond the length of any password.
fn line(input: impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.take(PASSWORD_BYTES_MAX as u64 + 2).read_line(&mut line)?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// Disables echo until it is dropped; line ends are still echoed.
struct Unseen<'a> {
    terminal: &'a Stdin,
    before: Termios,
}

impl<'a> Unseen<'a> {
    fn begin(terminal: &'a Stdin) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut unseen = before.clone();
        unseen.local_modes.remove(LocalModes::ECHO);
        unseen.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(terminal, OptionalActions::Flush, &unseen)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_without_its_end() {
        for (input, expected) in
            [("a b\n", "a b"), ("a\r\nb\n", "a"), ("a", "a"), ("", ""), ("\nx", "")]
        {
            assert_eq!(line(input.as_bytes()).unwrap(), expected, "{input:?}");
        }
        let long = line("a".repeat(10_000).as_bytes()).unwrap();
        assert!(Password::new(&long).is_err());
    }
}

//! The process that seals itself and becomes the command, or starts it: `courtesy seal`, which
//! `courtesy run --sealed` starts. It has one thread from its beginning to its end, because namespaces
//! of users cannot be made otherwise (unshare(2)).

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;

use super::super::super::exit::{Exit, Failure, OrExit};
use super::channel::Channel;
use super::messages::{NotExecuted, Refusal, RefusalKind, Release, json, send_refusal};
pub use super::steps::SealArgs;
use super::steps::{command, end_with_parent, serve_inside};
use super::{descriptors, init, mounts, namespaces, rights, supervise};

/// Runs `courtesy seal`.
pub fn run(args: &SealArgs) -> Result<Exit, Failure> {
    if args.processes && !args.init {
        return supervise::run(args);
    }
    descriptors::close_those_that_lead_out().or_exit(Exit::Unavailable)?;
    let mut channel = take_channel().or_exit(Exit::Usage)?;
    if args.init {
        end_with_parent(None).or_exit(Exit::Unavailable)?;
        return init::run(args, &mut channel);
    }
    if let Err(step) = namespaces::enter(false) {
        return send_refusal(&mut channel, Refusal { step, kind: RefusalKind::Namespaces });
    }
    // The proxy has ended, or only wanted to know whether it can be done.
    let Some(release) = serve_inside(args, &mut channel)? else { return Ok(Exit::Done) };
    let failed = become_command(args, &release);
    channel.send(&json(&Some(failed))?)?;
    Ok(Exit::Unavailable)
}

/// The socket to the proxy is standard input; what the command is to have there comes by it.
fn take_channel() -> io::Result<Channel> {
    let channel = Channel(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?));
    let received = channel.receive_descriptors()?;
    let stdin = received.first().ok_or_else(|| io::Error::other("no standard input has come"))?;
    rustix::stdio::dup2_stdin(stdin)?;
    descriptors::replace_standard_of_the_kernel()?;
    Ok(channel)
}

fn become_command(args: &SealArgs, release: &Release) -> NotExecuted {
    let prepared = mounts::make(&release.mounts)
        .and_then(|()| rights::give_up())
        .and_then(|()| end_with_parent(Some(args.parent)));
    if let Err(error) = prepared {
        return NotExecuted { number: None, words: error.to_string() };
    }
    match command(args, release) {
        Ok(mut command) => {
            let error = command.exec();
            NotExecuted { number: error.raw_os_error(), words: error.to_string() }
        }
        Err(failed) => failed,
    }
}

//! Gives each checkpoint of the log to the command of `audit.publish`, which takes it out of reach of those who can
//! change the log. What it answers is evidence. No request waits for any of this.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::components::Components;
use crate::audit::evidence::{Blob, Kind};
use crate::audit::{Notice, Published, PublishedEvent, Writer};
use crate::config::Settings;
use crate::runtime::clock::{Clock, monotonic};
use crate::types::sanitize::{self, hex, sha256_hex};

/// How often it is looked whether there is another checkpoint.
const LOOK: Duration = Duration::from_secs(1);

/// How long the command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of its output that are kept; one with more has failed.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// Bytes of what it says beside that; the last line of it is logged where it fails.
const SAID_BYTES_MAX: u64 = 16 << 10;

/// Bytes of that line.
const SAID_LINE_BYTES_MAX: usize = 200;

/// How long after a failure it is tried again, with the checkpoint that is the last by then; twice as long after each.
const RETRY_MIN: Duration = Duration::from_secs(60);
/// The longest.
const RETRY_MAX: Duration = Duration::from_secs(30 * 60);

/// What the command has of the environment: those of the proxy may be secrets.
const ENVIRONMENT: [&str; 6] = ["HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ"];

/// The thread that runs the command.
#[derive(Debug)]
pub struct Publisher {
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
struct Publishing {
    audit: Arc<Writer>,
    settings: Arc<ArcSwap<Settings>>,
    clock: Arc<dyn Clock>,
    command_timeout: Duration,
}

impl Publisher {
    /// Starts the thread; the log of a `courtesy run` is not published.
    pub fn start(components: &Components) -> io::Result<Self> {
        let end = CancellationToken::new();
        if components.settings().under_run {
            return Ok(Self { end, thread: None });
        }
        let publishing = Publishing {
            audit: Arc::clone(&components.audit),
            settings: Arc::clone(&components.settings),
            clock: Arc::clone(&components.clock),
            command_timeout: COMMAND_TIMEOUT,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = end.clone();
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = publishing.run(LOOK) => {}
                    () = ended.cancelled() => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("publisher".into()).spawn(run)?;
        Ok(Self { end, thread: Some(thread) })
    }

    /// Kills the command, if it is running.
    pub fn end(&mut self) {
        self.end.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Publishing {
    /// Publishes each checkpoint, for ever.
    async fn run(&self, look: Duration) {
        let (mut last, mut pause, mut due) = (None, RETRY_MIN, monotonic());
        loop {
            sleep(look).await;
            let settings = self.settings.load_full();
            let command = &settings.audit.publish;
            let checkpoint = self.audit.health().checkpoint.filter(|it| last.as_ref() != Some(it));
            let Some(checkpoint) = checkpoint.filter(|_| !command.is_empty()) else { continue };
            if monotonic() < due {
                continue;
            }
            let run = run_command(command, settings.state_dir.clone(), checkpoint.as_bytes());
            let outcome = timeout(self.command_timeout, run).await;
            let late = || Err(format!("it has not ended within {:?}", self.command_timeout));
            match outcome.unwrap_or_else(|_| late()) {
                Ok(output) => {
                    self.note(&command[0], &checkpoint, output).await;
                    (last, pause) = (Some(checkpoint), RETRY_MIN);
                }
                Err(why) => {
                    self.audit.note_publishing(false);
                    warn!(
                        "the checkpoint of the denial log is not published by {:?} (audit.publish): {why}; tried \
                         again in {pause:?}",
                        command[0]
                    );
                    due = monotonic() + pause;
                    pause = (2 * pause).min(RETRY_MAX);
                }
            }
        }
    }

    /// Writes down that the checkpoint was published, with the output of the command.
    async fn note(&self, by: &str, checkpoint: &str, output: Vec<u8>) {
        let sha256: [u8; 32] = Sha256::digest(&output).into();
        let receipt = Blob { sha256, kind: Kind::Receipt, content: output.into() };
        let receipt = Some(receipt).filter(|receipt| !receipt.content.is_empty());
        let published = Notice::Published(Published {
            by: sanitize::text(by.as_bytes(), SAID_LINE_BYTES_MAX),
            checkpoint: sha256_hex(checkpoint.as_bytes()),
            event: PublishedEvent::It,
            node: None,
            prev: String::new(),
            receipt: receipt.as_ref().map(|receipt| hex(&receipt.sha256)),
            seq: 0,
            time: self.clock.wall(),
        });
        if let Err(error) = self.audit.note_with(published, receipt.into_iter().collect()).await {
            warn!(%error, "the notice published is missing from the denial log");
        }
        self.audit.note_publishing(true);
    }
}

/// Runs the command with `input`; its output. Dropped before its end, it kills the command and what that has started.
async fn run_command(command: &[String], dir: PathBuf, input: &[u8]) -> Result<Vec<u8>, String> {
    let (program, arguments) = command.split_first().ok_or("it is empty")?;
    let child = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .env_clear()
        .envs(passed_on())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let mut group = Group(child);
    let (mut stdin, stdout, stderr) =
        (group.0.stdin.take(), group.0.stdout.take(), group.0.stderr.take());
    let give = async {
        // One that does not read all of it has its reasons, and an exit code.
        if let Some(stdin) = &mut stdin {
            let _ = stdin.write_all(input).await;
        }
        drop(stdin);
    };
    let ((), output, said) =
        tokio::join!(give, read(stdout, OUTPUT_BYTES_MAX), read(stderr, SAID_BYTES_MAX));
    let status = group.0.wait().await.map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(failure(status, &said));
    }
    if output.len() as u64 > OUTPUT_BYTES_MAX {
        return Err(format!("its output has more than {OUTPUT_BYTES_MAX} bytes"));
    }
    Ok(output)
}

/// What the command has of the environment.
#[expect(clippy::disallowed_methods, reason = "it is passed on, and says nothing to the proxy")]
fn passed_on() -> impl Iterator<Item = (&'static str, OsString)> {
    ENVIRONMENT.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)))
}

/// At most so many bytes, and one more where there are more; the rest is passed over.
async fn read(stream: Option<impl AsyncRead + Unpin>, max: u64) -> Vec<u8> {
    let mut content = Vec::new();
    if let Some(mut stream) = stream {
        // What cannot be read is not there; the exit code says more.
        let _ = (&mut stream).take(max + 1).read_to_end(&mut content).await;
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
    content
}

/// How it ended, and the last line that it has said.
fn failure(status: ExitStatus, said: &[u8]) -> String {
    let line = said.split(|byte| *byte == b'\n').rfind(|line| !line.trim_ascii().is_empty());
    let line = line.map(|line| format!(": {}", sanitize::text(line, SAID_LINE_BYTES_MAX)));
    format!("{status}{}", line.unwrap_or_default())
}

/// The command, and what it has started.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // None once it has been waited for.
        let pid = self.0.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(pid) = pid {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::audit::evidence::{BlobStore, Found};
    use crate::audit::{CheckpointEvent, Checkpointed, Config, FILE_NAME};
    use crate::runtime::clock::SystemClock;

    fn publishing(dir: &Path, command: &[&str]) -> Publishing {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let config = Config { key: Some(dir.join("audit.key")), ..Config::new(dir.join("audit")) };
        let audit = Arc::new(Writer::open(config, Arc::clone(&clock)).unwrap());
        let mut settings = Settings { state_dir: dir.to_owned(), ..Settings::default() };
        settings.audit.publish = command.iter().map(|word| (*word).to_owned()).collect();
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        Publishing { audit, settings, clock, command_timeout: Duration::from_secs(20) }
    }

    async fn checkpoint(publishing: &Publishing) {
        let notice = Notice::Checkpointed(Checkpointed {
            event: CheckpointEvent::It,
            node: None,
            note: String::new(),
            prev: String::new(),
            seq: 0,
            time: publishing.clock.wall(),
        });
        publishing.audit.note(notice).await.unwrap();
    }

    fn lines(dir: &Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(dir.join("audit").join(FILE_NAME)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs until `is_seen`.
    async fn run(publishing: &Publishing, is_seen: impl Fn() -> bool) {
        let seen = async {
            while !is_seen() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = publishing.run(Duration::from_millis(1)) => {}
            () = seen => {}
        }
    }

    #[tokio::test]
    async fn a_checkpoint_is_given_to_the_command_once_and_its_output_is_evidence() {
        let dir = tempfile::tempdir().unwrap();
        let script = "cat; printf ' %s' received; env >environment";
        let publishing = publishing(dir.path(), &["sh", "-c", script]);
        for count in 1..=2 {
            checkpoint(&publishing).await;
            run(&publishing, || publishing.audit.health().published == count).await;
        }
        publishing.audit.close().unwrap();
        let lines = lines(dir.path());
        let words: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
        assert_eq!(words[..2], ["checkpoint", "published"]);
        let (note, published) = (lines[0]["note"].as_str().unwrap(), &lines[1]);
        assert_eq!(published["by"], "sh");
        assert_eq!(published["checkpoint"], sha256_hex(note.as_bytes()));
        let store = BlobStore::of(&dir.path().join("audit"));
        let receipt = store.get(Kind::Receipt, published["receipt"].as_str().unwrap()).unwrap();
        assert_eq!(receipt, Found::Content(format!("{note} received").into_bytes()));
        // The environment of the tests has more than is passed on.
        let environment = std::fs::read_to_string(dir.path().join("environment")).unwrap();
        let of_shell = ["PWD", "OLDPWD", "SHLVL", "_"];
        for name in environment.lines().filter_map(|line| line.split('=').next()) {
            assert!(ENVIRONMENT.contains(&name) || of_shell.contains(&name), "{name}");
        }
    }

    #[tokio::test]
    async fn a_command_that_fails_is_counted_and_no_line_says_that_it_was_published() {
        for (script, expected) in [
            ("echo no such host >&2; exit 3", "exit status: 3: no such host"),
            ("head -c 70000 /dev/zero", "its output has more than 65536 bytes"),
            ("kill -9 $$", "signal: 9 (SIGKILL)"),
        ] {
            let command = ["sh", "-c", script].map(str::to_owned);
            let dir = tempfile::tempdir().unwrap();
            let error = run_command(&command, dir.path().to_owned(), b"x").await.unwrap_err();
            assert_eq!(error, expected);
        }
        let dir = tempfile::tempdir().unwrap();
        let publishing = publishing(dir.path(), &["/no/such/command"]);
        checkpoint(&publishing).await;
        run(&publishing, || publishing.audit.health().publish_failures == 1).await;
        publishing.audit.close().unwrap();
        assert!(lines(dir.path()).iter().all(|line| line["event"] != "published"));
    }

    #[tokio::test]
    async fn a_command_that_takes_too_long_ends_with_all_that_it_has_started() {
        let dir = tempfile::tempdir().unwrap();
        let script = "sleep 600 & echo $! >started; wait";
        let publishing = Publishing {
            command_timeout: Duration::from_millis(1),
            ..publishing(dir.path(), &["sh", "-c", script])
        };
        checkpoint(&publishing).await;
        run(&publishing, || publishing.audit.health().publish_failures == 1).await;
        // Whatever has come of it by then: once it has started something, that ends.
        let command = ["sh", "-c", script].map(str::to_owned);
        let started = dir.path().join("started");
        let pid = || std::fs::read_to_string(&started).ok()?.trim().parse::<i32>().ok();
        tokio::select! {
            _ = run_command(&command, dir.path().to_owned(), b"") => {}
            () = async { while pid().is_none() { tokio::task::yield_now().await } } => {}
        }
        let stat = format!("/proc/{}/stat", pid().unwrap());
        // It stays as a name until it is waited for.
        let has_ended =
            || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        while !has_ended() {
            tokio::task::yield_now().await;
        }
    }
}

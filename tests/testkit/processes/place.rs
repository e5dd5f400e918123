//! What a proxy leaves behind and finds again: its state directory and its settings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::{Log, Serve};

/// A state directory with a configuration beside it; both go when it is dropped.
pub struct Place {
    dir: TempDir,
}

impl Place {
    pub fn new(settings: &str) -> Self {
        let place = Self { dir: TempDir::new().expect("a directory") };
        place.set(settings);
        place
    }

    /// Other settings, for the next start.
    pub fn set(&self, settings: &str) {
        // Reading the system's roots takes longer than most tests.
        let settings = format!("{settings}\n[tls]\nroots = \"bundled\"\n");
        fs::write(self.configuration(), settings).expect("a directory that can be written to");
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn state_dir(&self) -> PathBuf {
        self.path().join("state")
    }

    pub fn configuration(&self) -> PathBuf {
        self.path().join("courtesy.toml")
    }

    pub fn audit_dir(&self) -> PathBuf {
        self.state_dir().join("audit")
    }

    /// The database of what is known of origins.
    pub fn store(&self) -> PathBuf {
        self.state_dir().join("state/state.db")
    }

    /// How many hosts are held, or were within a day.
    pub fn holds(&self) -> u64 {
        let database = rusqlite::Connection::open(self.store()).expect("a database");
        let count = "SELECT count(*) FROM hold WHERE until > 0";
        database.query_row(count, [], |row| row.get(0)).expect("a number")
    }

    pub fn log(&self) -> Log {
        Log::read(&self.audit_dir())
    }

    /// The closed files of the log whose names end so.
    pub fn closed_segments(&self, extension: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.audit_dir()).expect("the directory of records");
        let paths = entries.flatten().map(|entry| entry.path());
        let is_closed = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("denials-") && name.ends_with(&format!(".{extension}"))
        };
        paths.filter(is_closed).collect()
    }

    /// Starts the proxy here; it may reach this machine.
    #[track_caller]
    pub fn serve(&self) -> Serve {
        Serve::start(self.command("serve --allow-private"))
    }

    /// Starts it with another date: `ahead` of ours, such as `+29d`. Only the date differs; what is
    /// measured, timeouts and pauses, goes by the true clock.
    #[track_caller]
    pub fn serve_at(&self, ahead: &str) -> Serve {
        let mut command = self.command("serve --allow-private");
        command
            .env("LD_PRELOAD", faketime())
            .env("FAKETIME", ahead)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        Serve::start(command)
    }

    /// Starts it with mounts of its own: `mount` is a line of shell that makes them below `$1`, the
    /// state directory. They are gone with the process.
    #[track_caller]
    pub fn serve_on(&self, mount: &str) -> Serve {
        fs::create_dir_all(self.state_dir()).expect("a directory that can be written to");
        let serve = self.command("serve --allow-private");
        let mut command = Command::new("unshare");
        // As anybody but root, a name space of users is needed for one of mounts.
        let user = (!rustix::process::geteuid().is_root()).then_some("--map-root-user");
        command.args(["--mount", "--propagation", "private"]).args(user);
        command
            .args(["sh", "-ec", &format!("{mount}; shift; exec \"$@\""), "sh"])
            .arg(self.state_dir());
        command.arg(serve.get_program()).args(serve.get_args());
        command.env_clear().stdin(Stdio::null());
        command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        Serve::start(command)
    }

    /// `courtesy` with these words, in an environment of its own and with the settings of this place.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(program());
        command
            .args(words.split_whitespace())
            .env_clear()
            .env("HOME", self.path())
            .stdin(Stdio::null());
        command.env("COURTESY_CONFIG", self.configuration());
        command.env("COURTESY__STATE_DIR", self.state_dir());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, words: &str) -> Output {
        self.command(words).output().expect("the program runs")
    }

    /// That `courtesy audit verify` finds nothing wrong; what it says.
    #[track_caller]
    pub fn verified(&self) -> String {
        self.verified_in(&self.audit_dir())
    }

    /// The same for a log elsewhere.
    #[track_caller]
    pub fn verified_in(&self, dir: &Path) -> String {
        let mut command = self.command("audit verify --dir");
        let output = command.arg(dir).output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }
}

/// The program under test: the one built with the tests, or the one that `COURTESY_TEST_PROGRAM` names.
#[expect(clippy::disallowed_methods, reason = "a test is a program of its own")]
fn program() -> PathBuf {
    let named = std::env::var_os("COURTESY_TEST_PROGRAM");
    named.map_or_else(|| env!("CARGO_BIN_EXE_courtesy").into(), PathBuf::from)
}

/// The library that gives a process another date (Debian's libfaketime).
#[track_caller]
fn faketime() -> PathBuf {
    let places = fs::read_dir("/usr/lib").expect("a directory").flatten();
    let places = places.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    let found = places.into_iter().find(|path| path.exists());
    found.expect("libfaketime, which tests/run installs: apt-get install libfaketime")
}

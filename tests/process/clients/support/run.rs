//! `courtesy run -- CLIENT`, and what there is to know when it has ended.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::answer::{Answer, answers};
use super::site::{SECRET, Seen, Site, WELCOME};

/// Only a client that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(75);

/// The variables by which clients trust the proxy.
const TRUST: [&str; 10] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "WGETRC",
    "GIT_SSL_CAINFO",
    "HTTPLIB2_CA_CERTS",
    "MOJO_CA_FILE",
    "NPM_CONFIG_CAFILE",
    "PERL_LWP_SSL_CA_FILE",
];

/// What the proxy says of a client that refuses its certificate by an alert, and of one that leaves.
pub const DISTRUST: &str = "the client does not trust the proxy's CA";
pub const MAYBE_DISTRUST: &str = "it may not trust the proxy's CA";

/// A run of a client, before it and after it. Its directory is the client's home, and is gone when
/// this is dropped.
pub struct Run<'a> {
    site: &'a Site,
    directory: TempDir,
    options: Vec<String>,
}

/// What a command that has ended said.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl<'a> Run<'a> {
    pub fn of(site: &'a Site) -> Self {
        let directory = TempDir::new().expect("a directory");
        let config = format!(
            "state_dir = {:?}\n[tls]\nroots = \"bundled\"\nextra_roots = [{:?}]\n\
             [egress]\nallow = [\"127.0.0.0/8\", \"10.0.0.0/8\"]\nconnect_ports = {:?}\n",
            directory.path().join("state"),
            site.root(),
            site.ports()
        );
        fs::write(directory.path().join("courtesy.toml"), config).expect("a file");
        // The site is on loopback.
        Self { site, directory, options: vec!["--proxy-loopback".into()] }
    }

    /// As `courtesy run` comes: loopback is outside the proxy.
    pub fn without_loopback(mut self) -> Self {
        self.options.clear();
        self
    }

    /// A directory of this run's own.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A command of this run, without `courtesy run`: in the environment that the client will have.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", path()).env("LC_ALL", "C.UTF-8");
        command.env("HOME", self.directory()).env("TMPDIR", self.directory());
        // The sources are not the place for what Python compiles of them.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.current_dir(self.directory());
        command
    }

    /// One of courtesy's own commands, with this run's settings.
    #[track_caller]
    pub fn courtesy(&self, arguments: &[&str]) -> Ended {
        let config = self.directory().join("courtesy.toml");
        end(self
            .command(env!("CARGO_BIN_EXE_courtesy"))
            .args(arguments)
            .env("COURTESY_CONFIG", config))
    }

    /// Runs `client` to its end.
    #[track_caller]
    pub fn client<S: Into<String>>(&self, client: impl IntoIterator<Item = S>) -> Ended {
        let mut arguments: Vec<String> = vec!["run".into()];
        arguments.extend(self.options.iter().cloned());
        arguments.extend([
            "--quiet".into(),
            "--summary=json".into(),
            "--summary-file=summary.json".into(),
            "--".into(),
        ]);
        arguments.extend(client.into_iter().map(Into::into));
        self.courtesy(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The sum of the last run.
    #[track_caller]
    pub fn summary(&self) -> Value {
        let text = fs::read_to_string(self.directory().join("summary.json")).expect("a summary");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The audit records of the last run.
    #[track_caller]
    pub fn records(&self) -> Vec<Value> {
        let summary = self.summary();
        let file =
            PathBuf::from(summary["records"]["file"].as_str().expect("the file of the records"));
        let lines = fs::read_to_string(&file).expect("the file of the records");
        let lines = lines.lines().map(|line| serde_json::from_str(line).expect("a line"));
        // Allowed requests have lines like records, and what the log says of itself has no reason.
        let is_record = |line: &Value| line.get("reason").is_some() && line["event"] != "allowed";
        lines.filter(is_record).collect()
    }

    /// Runs a client that asks for the URLs after its arguments, and looks as [`Self::four_by`] does;
    /// and shows that it was the variables that made it trust the proxy.
    #[track_caller]
    pub fn four<S: Into<String>>(
        &self,
        client: impl IntoIterator<Item = S>,
        user_agent: &str,
    ) -> Vec<Answer> {
        let client: Vec<String> = client.into_iter().map(Into::into).collect();
        let answers =
            self.four_by(self.client(client.iter().cloned().chain(self.site.four())), user_agent);
        self.assert_verifies(client.into_iter().chain([self.site.url("https", "/page")]));
        answers
    }

    /// The client, led here but told of no authority, refuses the proxy's certificate, and the operator
    /// hears of it.
    #[track_caller]
    pub fn assert_verifies(&self, client: impl IntoIterator<Item = String>) -> Ended {
        let seen = self.site.seen();
        let without = TRUST.iter().flat_map(|name| ["-u", name]).map(str::to_owned);
        let ended = self.client(["env".to_owned()].into_iter().chain(without).chain(client));
        assert!(answers(&ended.stdout).is_empty(), "{ended:#?}");
        let said = ended.stderr.contains(DISTRUST) || ended.stderr.contains(MAYBE_DISTRUST);
        assert!(said, "{ended:#?}");
        assert_eq!(self.site.seen(), seen, "a client that distrusts the proxy asks for nothing");
        ended
    }

    /// The same with a program that prints pages and no more: `command`, in words of a shell, asks for one
    /// URL. Whether it prints the page of a refusal is its own affair.
    #[track_caller]
    pub fn pages(&self, command: &str, user_agent: &str) -> Ended {
        let script = format!("for url; do {command} \"$url\"; done");
        let client = ["sh", "-c", &script, "sh"].map(str::to_owned);
        let ended = self.client(client.clone().into_iter().chain(self.site.four()));
        assert_eq!(ended.stdout.matches(WELCOME).count(), 2, "{ended:#?}");
        assert!(!ended.stdout.contains(SECRET), "{ended:#?}");
        self.assert_four(&ended, user_agent);
        ended
    }

    /// The client, led here but told of no authority, refuses the proxy's certificate.
    #[track_caller]
    pub fn assert_refuses(&self, command: &str) {
        let seen = self.site.seen();
        let without = TRUST.iter().flat_map(|name| ["-u", name]).map(str::to_owned);
        let script = format!("{command} \"$0\"");
        let client = ["sh".to_owned(), "-c".into(), script, self.site.url("https", "/page")];
        let ended = self.client(["env".to_owned()].into_iter().chain(without).chain(client));
        assert!(!ended.stdout.contains(WELCOME), "{ended:#?}");
        assert_eq!(
            self.summary()["requests"],
            0,
            "a client that distrusts the proxy asks for nothing: {ended:#?}"
        );
        assert_eq!(self.site.seen(), seen);
    }

    /// What a client that asked for [`Site::four`] got, what the site saw and what the records say,
    /// held against robots.txt.
    #[track_caller]
    pub fn four_by(&self, ended: Ended, user_agent: &str) -> Vec<Answer> {
        let answers = answers(&ended.stdout);
        let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 403, 200, 403], "{ended:#?}");
        let records = self.assert_four(&ended, user_agent);
        for (index, answer) in answers.iter().enumerate() {
            if answer.status == 200 {
                assert!(answer.body.contains(WELCOME), "{answer:#?}");
                assert_eq!(answer.record, "");
            } else {
                assert_eq!(
                    answer.record,
                    records[index / 2]["id"],
                    "the record that the client was told"
                );
                assert!(answer.body.contains("Disallow: /private/"), "{answer:#?}");
            }
        }
        answers
    }

    /// Two pages were fetched and two denied, each with its record; these are returned.
    #[track_caller]
    fn assert_four(&self, ended: &Ended, user_agent: &str) -> Vec<Value> {
        let summary = self.summary();
        let numbers =
            ["requests", "forwarded", "denied", "failed"].map(|name| summary[name].clone());
        assert_eq!(numbers, [4, 2, 2, 0], "{summary} {ended:#?}");
        assert_eq!(summary["warning"], Value::Null, "{summary}");
        let mut records = self.records();
        assert_eq!(records.len(), 2, "{records:#?}");
        let [_, by_http, _, by_https] = self.site.four();
        // Some clients ask by both schemes at once, and either may be denied first.
        records.sort_by_key(|record| record["url"] == by_https);
        for (record, url) in records.iter().zip([by_http, by_https]) {
            assert_denied(record, &url, user_agent);
        }
        assert_polite(&self.site.seen());
        records
    }
}

/// The record says what was asked for, by whom, and which line refused it.
#[track_caller]
pub fn assert_denied(record: &Value, url: &str, user_agent: &str) {
    assert_eq!(record["event"], "denied");
    assert_eq!(record["reason"], "disallow_rule");
    assert_eq!(record["url"], url);
    assert_eq!(record["rule"]["line"], 3);
    assert_eq!(record["path_seen"], true);
    let agent = record["user_agent"].as_str().unwrap_or_default();
    assert!(agent.starts_with(user_agent), "{agent} is not {user_agent}");
}

/// The page by both schemes, robots.txt once by each, nothing else, and all of it through the proxy.
#[track_caller]
fn assert_polite(seen: &[Seen]) {
    let mut wanted = Vec::new();
    for scheme in ["http", "https"] {
        for path in ["/robots.txt", "/page"] {
            wanted.push((scheme, path));
        }
    }
    let mut paths: Vec<_> = seen.iter().map(|seen| (seen.scheme, seen.path.as_str())).collect();
    // Some clients ask by both at once.
    paths.sort_by_key(|(scheme, _)| *scheme);
    assert_eq!(paths, wanted, "what reached the site");
    let around: Vec<_> =
        seen.iter().filter(|seen| seen.path != "/robots.txt" && !seen.by_proxy).collect();
    assert!(around.is_empty(), "these went around the proxy: {around:?}");
}

/// Where the programs of this machine are.
#[expect(clippy::disallowed_methods, reason = "a test has no settings to take it from")]
fn path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// Runs a command to its end, which must come: after [`PATIENCE`], whatever it has started is ended.
#[track_caller]
pub fn end(command: &mut Command) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child =
        command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let id = child.id();
    let (sender, ended) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let _ = sender.send(child.wait_with_output());
    });
    let Ok(output) = ended.recv_timeout(PATIENCE) else {
        // First so that browsers are ended by those who started them.
        let _ = Command::new("kill").args(["-s", "TERM", "--", &format!("-{id}")]).status();
        if ended.recv_timeout(Duration::from_secs(10)).is_err() {
            let _ = Command::new("kill").args(["-s", "KILL", "--", &format!("-{id}")]).status();
        }
        panic!("{command:?} has not ended after {PATIENCE:?}");
    };
    waiting.join().expect("it only waits");
    let output = output.expect("its output");
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Ended { code: output.status.code(), stdout, stderr }
}

//! The CA against clients that are not ours, OpenSSL and Python at their strictest, and its
//! subcommands as a shell sees them.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use courtesy::ca::{Authority, Leaves, Source};
use courtesy::runtime::clock::{Clock, SystemClock};
use courtesy::types::origin::Host;
use serde_json::Value as Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A state directory with a CA in it.
struct State(tempfile::TempDir);

impl State {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn source(&self) -> Source {
        Source::Own(self.path("ca"))
    }

    fn leaves(&self) -> Leaves {
        Leaves::open(self.source(), Arc::new(SystemClock), NonZeroUsize::new(16).unwrap()).unwrap()
    }

    fn courtesy(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_courtesy"));
        command.arg("ca").args(arguments).env_clear().env("COURTESY__STATE_DIR", self.0.path());
        command.stdin(Stdio::null());
        command
    }

    fn prints(&self, arguments: &[&str]) -> String {
        text(succeeds(&mut self.courtesy(arguments)).stdout)
    }

    fn shown(&self) -> Json {
        serde_json::from_str(&self.prints(&["show", "--json"])).unwrap()
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[track_caller]
fn succeeds(command: &mut Command) -> Output {
    let output = command.output().expect("the program is there: apt-get install openssl python3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {said}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    output
}

#[track_caller]
fn fails(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    text(output.stderr)
}

/// Answers every handshake with the leaf of `host`, as an interception does.
async fn serve(leaves: &Leaves, host: &Host) -> SocketAddr {
    let acceptor = TlsAcceptor::from(leaves.server_config(host).await.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                stream.write_all(b"hello").await?;
                stream.shutdown().await?;
                stream.read_to_end(&mut Vec::new()).await
            });
        }
    });
    address
}

/// With -x509_strict, which asks for what RFC 5280 asks of a conforming CA.
fn openssl(address: SocketAddr, name: &str, trust: &Path) -> Command {
    let mut command = Command::new("openssl");
    command.args([
        "s_client",
        "-x509_strict",
        "-verify_return_error",
        "-connect",
        &address.to_string(),
    ]);
    command.arg("-CAfile").arg(trust).stdin(Stdio::null());
    match name.parse::<std::net::IpAddr>() {
        Ok(_) => command.args(["-verify_ip", name]),
        Err(_) => command.args(["-verify_hostname", name, "-servername", name]),
    };
    command
}

/// As Python 3.13 and later verify by default.
const PYTHON: &str = "
import socket, ssl, sys
host, port, name, trust = sys.argv[1:]
context = ssl.create_default_context(cafile=trust)
context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
with socket.create_connection((host, int(port))) as plain:
    with context.wrap_socket(plain, server_hostname=name) as tls:
        assert tls.recv(5) == b'hello'
";

fn python(address: SocketAddr, name: &str, trust: &Path) -> Command {
    let mut command = Command::new("python3");
    command
        .args(["-c", PYTHON, &address.ip().to_string(), &address.port().to_string(), name])
        .arg(trust);
    command
}

fn host(name: &str) -> Host {
    match name.parse() {
        Ok(std::net::IpAddr::V4(address)) => Host::V4(address),
        Ok(std::net::IpAddr::V6(address)) => Host::V6(address),
        Err(_) => Host::Name(name.into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_clients_accept_names_and_addresses() {
    let state = State::new();
    let leaves = state.leaves();
    let trust = state.path("ca/ca.pem");
    for name in ["example.com", "xn--mller-kva.example", "127.0.0.1", "192.0.2.7", "2001:db8::1"] {
        let address = serve(&leaves, &host(name)).await;
        succeeds(&mut openssl(address, name, &trust));
        succeeds(&mut python(address, name, &trust));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_clients_refuse_another_name_and_another_ca() {
    let state = State::new();
    let address = serve(&state.leaves(), &host("example.com")).await;
    let said = fails(&mut python(address, "example.org", &state.path("ca/ca.pem")), 1);
    assert!(said.contains("Hostname mismatch"), "{said}");
    let other = State::new();
    other.leaves();
    let said = fails(&mut python(address, "example.com", &other.path("ca/ca.pem")), 1);
    assert!(said.contains("CERTIFICATE_VERIFY_FAILED"), "{said}");
    assert_ne!(
        openssl(address, "example.com", &other.path("ca/ca.pem")).output().unwrap().status.code(),
        Some(0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_accept_leaves_before_and_after_a_rotation() {
    let state = State::new();
    let leaves = state.leaves();
    let before = serve(&leaves, &host("example.com")).await;
    state.prints(&["rotate"]);
    assert!(leaves.reload().unwrap());
    let after = serve(&leaves, &host("example.com")).await;
    let trust = state.path("export.pem");
    state.prints(&["export", "--out", trust.to_str().unwrap()]);
    for address in [before, after] {
        succeeds(&mut openssl(address, "example.com", &trust));
        succeeds(&mut python(address, "example.com", &trust));
    }
    state.prints(&["rotate", "--finish"]);
    state.prints(&["export", "--out", trust.to_str().unwrap()]);
    fails(&mut python(before, "example.com", &trust), 1);
    succeeds(&mut python(after, "example.com", &trust));
}

#[test]
fn programs_that_start_at_once_make_one_ca() {
    let state = State::new();
    let started: Vec<_> = (0..8)
        .map(|_| state.courtesy(&["show", "--json"]).stdout(Stdio::piped()).spawn().unwrap())
        .collect();
    let shown: Vec<_> =
        started.into_iter().map(|child| child.wait_with_output().unwrap().stdout).collect();
    assert!(shown.iter().all(|text| !text.is_empty() && *text == shown[0]));
}

#[test]
fn show_says_by_what_the_ca_is_known_and_how_long_it_holds() {
    let state = State::new();
    let shown = state.shown();
    assert_eq!(shown["days_left"], 729);
    assert_eq!(shown["file"], state.path("ca/ca.pem").to_str().unwrap());
    let openssl = succeeds(
        Command::new("openssl")
            .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
            .arg(state.path("ca/ca.pem")),
    );
    let fingerprint = shown["fingerprint"].as_str().unwrap();
    assert!(text(openssl.stdout).trim().ends_with(&format!("={fingerprint}")));
    let plain = state.prints(&["show"]);
    assert!(
        plain.contains(shown["subject"].as_str().unwrap()) && plain.contains("729 days left"),
        "{plain}"
    );
}

#[test]
fn rotate_says_what_to_do_and_finish_ends_the_overlap() {
    let state = State::new();
    let first = state.shown();
    let said = state.prints(&["rotate"]);
    assert!(said.contains(first["subject"].as_str().unwrap()), "{said}");
    assert!(said.contains("courtesy ca export") && said.contains("SIGHUP"), "{said}");
    let second = state.shown();
    assert_ne!(second["fingerprint"], first["fingerprint"]);
    assert_eq!(second["previous"][0]["fingerprint"], first["fingerprint"]);
    assert!(state.prints(&["show"]).contains("to be trusted, too:"));
    assert!(state.prints(&["rotate", "--finish"]).contains("the only CA"));
    assert!(state.shown().get("previous").is_none());
}

#[test]
fn export_gives_certificates_and_never_a_key() {
    let state = State::new();
    state.prints(&["rotate"]);
    state.prints(&["rotate"]);
    for format in ["pem", "p12-instructions"] {
        let export = state.prints(&["export", "--format", format]);
        assert_eq!(export.matches("BEGIN CERTIFICATE").count(), 2, "{export}");
        assert!(!export.contains("PRIVATE"), "{export}");
    }
    let output = succeeds(&mut state.courtesy(&["export", "--format", "der"]));
    let authority = Authority::open(&state.source(), SystemClock.wall()).unwrap();
    assert_eq!(output.stdout, authority.certificate().der().as_ref());
    assert!(text(output.stderr).starts_with("note: "), "what is left out is said");
    let said = fails(&mut state.courtesy(&["export", "--out", "/dev/null/ca.pem"]), 74);
    assert!(said.contains("/dev/null/ca.pem"), "{said}");
}

#[test]
fn install_help_names_the_file_for_every_client() {
    let state = State::new();
    let clients = [
        "curl", "wget", "python", "requests", "httpx", "aiohttp", "scrapy", "node", "java", "go",
        "git", "chromium", "chrome", "firefox", "system",
    ];
    let all = state.prints(&["install-help"]);
    for client in clients {
        let help = state.prints(&["install-help", client]);
        assert!(help.contains(state.path("ca/ca.pem").to_str().unwrap()), "{help}");
        assert!(all.contains(help.lines().next().unwrap()), "{client}");
    }
    let help = state.prints(&["install-help", "curl", "--file", "/srv/our ca.pem"]);
    assert!(help.contains("CURL_CA_BUNDLE='/srv/our ca.pem'"), "{help}");
    let said = fails(&mut state.courtesy(&["install-help", "lynx"]), 2);
    assert!(said.contains("\"lynx\"") && said.contains("curl, wget, python"), "{said}");
}

#[test]
fn what_is_wrong_with_a_ca_has_its_exit_code() {
    let state = State::new();
    state.prints(&["show"]);
    let key = state.path("ca/ca.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let said = fails(&mut state.courtesy(&["show"]), 77);
    assert!(said.contains(&format!("run: chmod 600 {}", key.display())), "{said}");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();

    let [certificate, key] =
        ["ca/ca.pem", "ca/ca.key"].map(|name| state.path(name).display().to_string());
    let own = ["--ca-cert", &certificate, "--ca-key", &key];
    let said = fails(&mut state.courtesy(&[&["rotate"][..], &own].concat()), 78);
    assert!(said.contains("this CA is the operator's own"), "{said}");
    assert!(
        fails(&mut state.courtesy(&["show", "--ca-cert", &certificate]), 78)
            .contains("https.ca_key")
    );
    let other = State::new();
    other.prints(&["show"]);
    let other_key = other.path("ca/ca.key").display().to_string();
    let said = fails(
        &mut state.courtesy(&["show", "--ca-cert", &certificate, "--ca-key", &other_key]),
        78,
    );
    assert!(said.contains("do not belong together"), "{said}");
}

/// Profiles of Firefox in each place that has had them: what the help says, done by a shell.
#[test]
fn the_help_for_firefox_finds_every_profile() {
    let home = tempfile::tempdir().unwrap();
    let places = [
        ".mozilla",
        ".config/mozilla",
        "snap/firefox/common/.mozilla",
        ".var/app/org.mozilla.firefox/.mozilla",
    ];
    let certutil = |arguments: &[&str]| {
        let output = std::process::Command::new("certutil").args(arguments).output();
        output.expect("certutil, of libnss3-tools: tests/run installs it")
    };
    let profiles = places.map(|place| home.path().join(place).join("firefox/a b.default"));
    for profile in &profiles {
        std::fs::create_dir_all(profile).unwrap();
        let made =
            certutil(&["-N", "--empty-password", "-d", &format!("sql:{}", profile.display())]);
        assert!(made.status.success(), "{made:?}");
    }
    let state = home.path().join("state");
    let mut help = std::process::Command::new(env!("CARGO_BIN_EXE_courtesy"));
    let help = help
        .args(["ca", "install-help", "firefox"])
        .env("COURTESY__STATE_DIR", &state)
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    // What follows is about other clients.
    let help = help.split("\nMost of these").next().unwrap();
    let script: String = help
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .map(|line| format!("{line}\n"))
        .collect();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-ec", &script]).env("HOME", home.path()).env_remove("XDG_CONFIG_HOME");
    let ran = shell.output().unwrap();
    assert!(ran.status.success(), "{script} {ran:?}");
    for profile in &profiles {
        let list = certutil(&["-L", "-d", &format!("sql:{}", profile.display())]);
        assert!(
            String::from_utf8_lossy(&list.stdout).contains("courtesy"),
            "{} {list:?}",
            profile.display()
        );
    }
}

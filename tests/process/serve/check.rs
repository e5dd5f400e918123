//! `courtesy config check` beside `courtesy serve`: what ends the one ends the other, with the same code and
//! the same words, and the check leaves everything as it was.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::serve::support::{Ended, Served, courtesy, end, state_dir};

/// A user who is not root, for what root may do all the same.
const ORDINARY: u32 = 65_532;

/// What a proxy is started with: a file of settings and what it names, below one directory.
struct Site {
    dir: TempDir,
    config: String,
    as_ordinary: bool,
}

impl Site {
    fn new(config: &str) -> Self {
        let dir = state_dir();
        let config = config.replace("DIR", dir.path().to_str().unwrap());
        Self { dir, config, as_ordinary: false }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Whoever runs the tests, an ordinary user runs the program, and owns the directory.
    fn ordinary(mut self) -> Self {
        self.as_ordinary = true;
        self
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let file = self.at("courtesy.toml");
        fs::write(&file, &self.config).unwrap();
        let mut command = courtesy(&self.at("state"), arguments);
        command.arg("--config").arg(&file);
        if self.as_ordinary && rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(self.dir.path(), Some(ORDINARY), Some(ORDINARY)).unwrap();
            command.uid(ORDINARY).gid(ORDINARY);
        }
        end(&mut command)
    }

    /// Both end with `code` and say all of `faults`; the check changes nothing.
    #[track_caller]
    fn is_refused(&self, code: i32, faults: &[&str]) {
        self.run(&["config", "default"]);
        let before = tree(self.dir.path());
        let checked = self.run(&["config", "check"]);
        assert_eq!(tree(self.dir.path()), before, "the check has changed something");
        assert_eq!(checked.code, Some(code), "{checked:?}");
        let served = self.run(&["serve", "--listen", "127.0.0.1:0", "--admin", "off"]);
        assert_eq!(served.code, Some(code), "{served:?}");
        for fault in faults {
            let fault = fault.replace("DIR", self.dir.path().to_str().unwrap());
            assert!(checked.stderr.contains(&fault), "{fault}: {checked:?}");
            assert!(served.stderr.contains(&fault), "{fault}: {served:?}");
        }
    }
}

/// Every file and directory with its mode, and a file with its content and the time of its last change.
fn tree(dir: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        // The settings are written for each run.
        let is_config = path.ends_with("courtesy.toml");
        let changed = if is_config { 0 } else { metadata.mtime_nsec() };
        let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if metadata.is_dir() {
            found.extend(tree(&path));
        }
        found.insert(path, (metadata.mode(), changed, content));
    }
    found
}

fn write_private(file: &Path, text: &[u8]) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
}

/// A CA that a proxy has made in a directory: certificate and key.
fn authority() -> (Vec<u8>, Vec<u8>) {
    let dir = state_dir();
    Served::start(dir.path(), &[]).terminate();
    let read = |name: &str| fs::read(dir.path().join("ca").join(name)).unwrap();
    (read("ca.pem"), read("ca.key"))
}

const OWN_CA: &str = "[https]\nca_cert = \"DIR/ca.pem\"\nca_key = \"DIR/ca.key\"\n";

#[test]
fn a_ca_that_is_none_and_a_key_of_another_are_refused_by_both() {
    let ((certificate, key), (_, other_key)) = (authority(), authority());
    let site = Site::new(OWN_CA);
    fs::write(site.at("ca.pem"), "this is no certificate\n").unwrap();
    write_private(&site.at("ca.key"), &key);
    site.is_refused(78, &["DIR/ca.pem: no certificate in it"]);
    fs::write(site.at("ca.pem"), &certificate).unwrap();
    write_private(&site.at("ca.key"), &other_key);
    site.is_refused(78, &["DIR/ca.pem and DIR/ca.key do not belong together"]);
    write_private(&site.at("ca.key"), &key);
    assert_eq!(site.run(&["config", "check"]).code, Some(0));
    fs::set_permissions(site.at("ca.key"), Permissions::from_mode(0o644)).unwrap();
    site.is_refused(77, &["chmod 600 DIR/ca.key"]);
    fs::remove_file(site.at("ca.key")).unwrap();
    site.is_refused(74, &["DIR/ca.key"]);
}

#[test]
fn our_own_ca_that_is_damaged_is_refused_by_both() {
    let site = Site::new("");
    Served::start(&site.at("state"), &[]).terminate();
    assert_eq!(site.run(&["config", "check"]).code, Some(0));
    fs::write(site.at("state/ca/ca.pem"), "damaged").unwrap();
    site.is_refused(78, &["DIR/state/ca/ca.pem: no certificate in it"]);
}

#[test]
fn files_that_are_missing_are_refused_by_both() {
    for (config, code, fault) in [
        ("clients.users_file = \"DIR/users.toml\"", 78, "DIR/users.toml"),
        ("admin.token_file = \"DIR/token\"", 74, "DIR/token (admin.token_file)"),
        ("tls.extra_roots = [\"DIR/one.pem\", \"DIR/two.pem\"]", 78, "DIR/two.pem: No such file"),
    ] {
        Site::new(config).is_refused(code, &[fault]);
    }
}

#[test]
fn an_audit_directory_that_cannot_be_made_is_refused_by_both() {
    let site = Site::new("audit.dir = \"DIR/file/audit\"");
    fs::write(site.at("file"), "").unwrap();
    site.is_refused(74, &["cannot write denial records to DIR/file/audit: Not a directory"]);
    Site::new("audit.dir = \"/proc/audit\"")
        .is_refused(74, &["cannot write denial records to /proc/audit"]);
    let site = Site::new("");
    fs::create_dir_all(site.at("state/audit/denials.jsonl")).unwrap();
    site.is_refused(74, &["cannot write denial records to DIR/state/audit"]);
}

#[test]
fn what_an_ordinary_user_may_not_write_or_read_is_77_for_both() {
    let site = Site::new("audit.dir = \"DIR/closed/audit\"").ordinary();
    fs::create_dir(site.at("closed")).unwrap();
    fs::set_permissions(site.at("closed"), Permissions::from_mode(0o555)).unwrap();
    site.is_refused(77, &["cannot write denial records to DIR/closed/audit: Permission denied"]);
    let of_root = state_dir();
    let config = format!("admin.token_file = \"{}/token\"", of_root.path().display());
    let site = Site::new(&config).ordinary();
    write_private(&of_root.path().join("token"), b"0123456789abcdef\n");
    fs::set_permissions(of_root.path(), Permissions::from_mode(0o000)).unwrap();
    site.is_refused(77, &["/token (admin.token_file): Permission denied"]);
    fs::set_permissions(of_root.path(), Permissions::from_mode(0o700)).unwrap();
}

/// Several faults of the files are printed in one round, by both.
#[test]
fn all_faults_of_what_the_settings_name_are_said_at_once() {
    let site = Site::new(
        "audit.dir = \"/proc/audit\"\nclients.users_file = \"DIR/users\"\nadmin.token_file = \"DIR/token\"\n\
         tls.extra_roots = [\"DIR/root\"]\n",
    );
    site.is_refused(78, &["DIR/users", "DIR/token", "DIR/root", "/proc/audit"]);
}

const FAULTY: &str = "\
workers = 0
nonsense = 1
[listen]
proxy = [\"127.0.0.1:3128\", \"nowhere\"]
admin = \"here\"
[robots]
profil = \"google\"
mode = \"strict\"
max_size = \"1KiB\"
max_redirects = \"five\"
[clients]
users_file = \"DIR/users.toml\"
max_connections = 0
[https]
mode = \"none\"
ca_cert = \"DIR/ca.pem\"
[[agents.rules]]
match = \"\"
[[agents.rules]]
match = \"A*\"
mode = \"nothing\"
[[exemptions]]
origin = \"https://example.com\"
reason = \"\"
until = \"soon\"
[audit]
dir = \"/proc/audit\"
";

/// Of a file, too, and with the faults of what it names; a syntax error stands alone.
#[test]
fn all_faults_of_a_file_are_said_in_one_round() {
    let site = Site::new(FAULTY);
    let checked = site.run(&["config", "check"]);
    assert_eq!(checked.code, Some(78), "{checked:?}");
    for key in [
        ":1: workers:",
        ":2: nonsense:",
        ":4: listen.proxy[1]:",
        ":5: listen.admin:",
        ":7: robots.profil:",
        ":8: robots.mode:",
        ":9: robots.max_size:",
        ":10: robots.max_redirects:",
        ":13: clients.max_connections:",
        ":15: https.mode:",
        ":16: https.ca_cert:",
        ":18: agents.rules[0].match:",
        ":21: agents.rules[1].mode:",
        ": exemptions[0].by: is required",
        ":24: exemptions[0].reason: is empty",
        ":25: exemptions[0].until:",
        "users.toml",
        "/proc/audit",
    ] {
        assert_eq!(checked.stderr.matches(key).count(), 1, "{key}: {}", checked.stderr);
    }
    assert_eq!(checked.stderr.lines().count(), 1 + 18, "{}", checked.stderr);
    let settings_only = site.run(&["config", "check", "--settings-only"]);
    assert_eq!(settings_only.stderr.lines().count(), 1 + 16, "{}", settings_only.stderr);

    let site = Site::new(&format!("{FAULTY}[robots\n"));
    let checked = site.run(&["config", "check"]);
    assert_eq!((checked.code, checked.stderr.lines().count()), (Some(78), 2), "{}", checked.stderr);
}

/// Neither a directory nor a CA is made where there is none, nor is a running proxy in the way.
#[test]
fn a_check_that_finds_nothing_leaves_nothing_and_works_beside_the_proxy() {
    let site = Site::new("[audit]\nredact_query = true\n");
    site.run(&["config", "default"]);
    let before = tree(site.dir.path());
    let checked = site.run(&["config", "check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert_eq!(tree(site.dir.path()), before);
    assert!(!site.at("state").exists());
    let _served = Served::start(&site.at("state"), &[]);
    let checked = site.run(&["config", "check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

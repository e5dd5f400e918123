//! The probes of the shipped files, run as they stand there, beside a proxy whose configuration file has
//! become wrong since it was started.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::serve::support::{Ended, Served, end, state_dir, until};

/// The shipped files with probes, and how many each has.
const SHIPPED: [(&str, usize); 3] = [
    ("deploy/kubernetes/overlays/sidecar/crawler.yaml", 3),
    ("deploy/kubernetes/overlays/shared/proxy.yaml", 3),
    ("Dockerfile", 1),
];

/// What a configuration file becomes. The last one is not there any more.
const WRONG: [Option<&str>; 6] = [
    Some("[robots\n"),
    Some("robots.profil = \"rfc9309\"\n"),
    Some("[listen]\nadmin = \"nowhere\"\n"),
    Some("state_dir = \"/elsewhere\"\n[listen]\nadmin = \"127.0.0.1:1\"\n"),
    Some(""),
    None,
];

/// The arguments of each probe, behind the program's name: those of `exec` and of HEALTHCHECK.
fn probes() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (file, count) in SHIPPED {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let commands: Vec<_> = lines
            .filter(|line| line.contains("exec:") || line.starts_with("HEALTHCHECK "))
            .collect();
        assert_eq!(commands.len(), count, "{file}");
        for command in commands {
            let list = command.split_once('[').unwrap().1.split_once(']').unwrap().0;
            let mut words = list.split(',').map(|word| word.trim().trim_matches('"').to_owned());
            assert_eq!(words.next().as_deref(), Some("/usr/bin/courtesy"), "{file}: {command}");
            found.push(words.collect());
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found, [vec!["health".to_owned()], vec!["health".into(), "--live".into()]]);
    found
}

/// A proxy in a container: its settings in a file that a variable names, its state where another says.
struct Container {
    dir: tempfile::TempDir,
    served: Option<Served>,
    variables: Vec<(&'static str, String)>,
}

impl Container {
    fn config(&self) -> PathBuf {
        self.dir.path().join("config.toml")
    }

    fn start(config: &str, variables: &[(&'static str, &str)], admin: &[&str]) -> Self {
        let mut variables: Vec<_> =
            variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let dir = state_dir();
        let config_file = dir.path().join("config.toml");
        fs::write(&config_file, config).unwrap();
        variables.push(("COURTESY_CONFIG", config_file.display().to_string()));
        variables.push(("STATE_DIRECTORY", dir.path().join("state").display().to_string()));
        let mut container = Self { dir, served: None, variables };
        let mut command = container.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(admin);
        container.served = Some(Served::of(command, container.dir.path()));
        container
    }

    /// A command as it is run in the container.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_courtesy"));
        command.args(arguments).env_clear().env("COURTESY__TLS__ROOTS", "bundled");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    fn probe(&self, arguments: &[String]) -> Ended {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        end(&mut self.command(&arguments))
    }

    /// The file becomes each of the wrong ones: no probe fails.
    #[track_caller]
    fn survives(&self) {
        for wrong in WRONG {
            match wrong {
                Some(text) => fs::write(self.config(), text).unwrap(),
                None => fs::remove_file(self.config()).unwrap(),
            }
            for probe in probes() {
                let ended = self.probe(&probe);
                assert_eq!(ended.code, Some(0), "{wrong:?} {probe:?}: {ended:?}");
            }
        }
    }
}

/// An address that was free a moment ago, for those that are set in a file or a variable.
fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn no_probe_fails_because_the_file_became_wrong() {
    let address = free_address();
    let in_file = format!("[listen]\nadmin = \"{address}\"\n");
    Container::start(&in_file, &[], &[]).survives();
    Container::start("", &[("COURTESY__LISTEN__ADMIN", &free_address().to_string())], &[])
        .survives();
    Container::start("", &[], &["--admin", "127.0.0.1:0"]).survives();
}

/// What is not ready is still not ready, and what is wrong with the file is said.
#[test]
fn a_wrong_file_is_told_by_health_as_a_reason_and_not_by_its_end() {
    let container = Container::start("", &[], &["--admin", "127.0.0.1:0"]);
    fs::write(container.config(), "[robots\n").unwrap();
    let health = vec!["health".to_owned()];
    until("the reload is refused", || container.probe(&health).stdout.contains("config: "));
    let ended = container.probe(&health);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stdout.starts_with("degraded\n  config: the settings in effect are those before: "),
        "{ended:?}"
    );
    let explicit = vec![
        "health".to_owned(),
        "--admin".into(),
        container.served.as_ref().unwrap().admin.unwrap().to_string(),
    ];
    assert_eq!(container.probe(&explicit).code, Some(0));
}

/// The state directory that only the broken file names: as far as the file can be read.
#[test]
fn a_state_directory_of_the_broken_file_is_found() {
    let dir = state_dir();
    let state = dir.path().join("elsewhere");
    let set = format!("state_dir = \"{}\"\n", state.display());
    let container = Container::start(&set, &[], &["--admin", "127.0.0.1:0"]);
    fs::write(container.config(), set + "[robots\n").unwrap();
    for probe in probes() {
        let ended = container.probe(&probe);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

#[test]
fn without_an_admin_listener_every_probe_says_so() {
    let container = Container::start("", &[], &["--admin", "off"]);
    for probe in probes() {
        let ended = container.probe(&probe);
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert!(
            ended.stderr.contains("listen.admin is \"off\"") && ended.stderr.contains("serve.json"),
            "{ended:?}"
        );
    }
}

#[test]
fn a_clean_stop_leaves_nothing_and_a_kill_a_stale_file() {
    let mut container =
        Container::start("", &[("COURTESY__LISTEN__ADMIN", &free_address().to_string())], &[]);
    let run_file = container.dir.path().join("state/serve.json");
    let written = fs::read_to_string(&run_file).unwrap();
    let served = container.served.take().unwrap();
    assert!(written.contains(&served.admin.unwrap().to_string()), "{written}");
    let id = served.id();
    served.kill();
    for probe in probes() {
        let ended = container.probe(&probe);
        assert_eq!(ended.code, Some(69), "{ended:?}");
        let said = format!("serve.json, written by process {id}, which no longer runs");
        assert!(
            ended.stderr.contains(&said) && ended.stderr.contains("courtesy serve"),
            "{ended:?}"
        );
    }
    let mut command = container.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.args(["--admin", "127.0.0.1:0"]);
    let served = Served::of(command, container.dir.path());
    assert_eq!(container.probe(&probes()[0]).code, Some(0), "the new one is found");
    served.terminate();
    assert!(!run_file.exists());
    let ended = container.probe(&probes()[0]);
    assert_eq!(ended.code, Some(69), "{ended:?}");
}

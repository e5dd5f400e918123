//! What the log says of the proxy itself: started, settings, totals, stopped; and what shows that it was not
//! stopped cleanly.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::serve::support::{Served, Site, courtesy, end, exchange, state_dir, until};

const ROBOTS_TXT: &str = "User-agent: *\nDisallow: /private/\n";

/// The lines of the log, in its order, without those on single sites and on the tree.
fn lines(state: &Path) -> Vec<Value> {
    let text = fs::read_to_string(state.join("audit/denials.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_other =
        |line: &Value| ["file", "counts", "checkpoint"].iter().any(|it| line["event"] == *it);
    lines.filter(|line| !is_other(line)).collect()
}

fn events(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["event"].as_str().unwrap()).collect()
}

fn verified(state: &Path) -> Value {
    let verified = end(&mut courtesy(state, &["audit", "verify", "--format", "json"]));
    assert_eq!(verified.code, Some(0), "{verified:?}");
    serde_json::from_str(&verified.stdout).unwrap()
}

/// The digest as an auditor makes it, from what a command shows and with programs of others.
fn digest(state: &Path, file: &Path) -> String {
    let flags = [
        "--allow-private",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--config",
        file.to_str().unwrap(),
    ];
    let shown = end(courtesy(state, &["config", "show", "--format", "json"]).args(flags));
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let script = "jq -cjS 'map({(.key): .value}) | add' | sha256sum | cut -c 1-64";
    let mut made = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    made.stdin.take().unwrap().write_all(shown.stdout.as_bytes()).unwrap();
    let made = made.wait_with_output().unwrap();
    String::from_utf8(made.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn the_log_has_start_changes_with_their_cause_and_stop() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let (file, users) = (dir.path().join("courtesy.toml"), dir.path().join("users"));
    fs::write(&file, "[audit]\nnode = \"crawler-3\"\n").unwrap();
    let served = Served::start(dir.path(), &["--config", file.to_str().unwrap()]);
    assert_eq!(served.get(&site.url("/private/a")), 403);
    let started = lines(dir.path()).remove(0);
    assert_eq!((&started["event"], &started["how"]), (&"started".into(), &"serve".into()));
    assert_eq!(started["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(started["digest"], digest(dir.path(), &file), "as an auditor makes it");
    assert_eq!(started["settings"], started["digest"]);
    assert_eq!(started.get("changes"), None, "nothing is known of settings before");
    let program = fs::read(env!("CARGO_BIN_EXE_courtesy")).unwrap();
    assert_eq!(started["program"], courtesy::types::sanitize::sha256_hex(&program));

    // A secret in the settings, and a file of them.
    let secret = "contact = \"https://me:geheim@example.com/bot\"\n";
    fs::write(
        &file,
        format!("[audit]\nnode = \"crawler-3\"\n[robots]\nmode = \"observe\"\n{secret}"),
    )
    .unwrap();
    served.signal("HUP");
    until("there is a notice of the settings", || events(&lines(dir.path())).contains(&"settings"));
    assert_eq!(served.get(&site.url("/private/b")), 200);
    // What is refused is no change, and neither is what stays the same.
    fs::write(&file, "[robots]\nmode = \"obsrve\"\n").unwrap();
    served.signal("HUP");
    served.wait_for("courtesy_config_reload_failures_total", 1.0);
    let mut add = courtesy(dir.path(), &["users", "add", "crawler"]);
    let mut adding =
        add.env("COURTESY__CLIENTS__USERS_FILE", &users).stdin(Stdio::piped()).spawn().unwrap();
    adding.stdin.take().unwrap().write_all(b"kennwort\n").unwrap();
    assert!(adding.wait().unwrap().success());
    let with_users = format!("[audit]\nnode = \"crawler-4\"\n[clients]\nusers_file = {users:?}\n");
    fs::write(&file, &with_users).unwrap();
    until("there is a notice of the watched file", || {
        events(&lines(dir.path())).iter().filter(|event| **event == "settings").count() == 2
    });
    served.terminate();

    let lines = lines(dir.path());
    let expected = ["started", "denied", "settings", "would_deny", "settings", "totals", "stopped"];
    assert_eq!(events(&lines), expected);
    let (hup, watched, totals, stopped) = (&lines[2], &lines[4], &lines[5], &lines[6]);
    assert_eq!(hup["who"], "hup");
    let changes: Vec<Value> = serde_json::from_str(
        r#"[{"key":"robots.contact","new":"https://***@example.com/bot","old":null},
            {"key":"robots.mode","new":"observe","old":"enforce"}]"#,
    )
    .unwrap();
    assert_eq!(hup["changes"], Value::from(changes));
    assert_eq!(
        (&watched["who"], &watched["contents"]),
        (&"file".into(), &serde_json::json!(["clients.users_file"]))
    );
    assert_eq!(watched["digest"], digest(dir.path(), &file));
    assert_ne!(hup["digest"], watched["digest"]);
    let recorded = &totals["recorded"];
    assert_eq!((&recorded["denied"], &recorded["would_deny"]), (&1.into(), &1.into()));
    assert_eq!(stopped["why"], "SIGTERM");
    let nodes: Vec<_> = lines.iter().map(|line| line["node"].as_str().unwrap()).collect();
    assert_eq!(nodes[..4], ["crawler-3"; 4]);
    assert_eq!(nodes[4..], ["crawler-4"; 3]);
    let log = fs::read_to_string(dir.path().join("audit/denials.jsonl")).unwrap();
    assert_eq!(lines[3]["setting"], "robots.mode");
    let kept: Vec<_> = [0, 2, 4].map(|at: usize| settings(dir.path(), &lines[at])).into();
    assert_eq!(kept[1]["robots.mode"], "observe");
    assert_eq!(kept[1]["robots.contact"], "https://***@example.com/bot");
    for secret in ["geheim", "kennwort", "argon2"] {
        assert!(!log.contains(secret), "{log}");
        assert!(!format!("{kept:?}").contains(secret), "{kept:?}");
    }

    let notices = &verified(dir.path())["notices"];
    let count = |name: &str| notices[name].as_u64().unwrap();
    let counts = ["started", "settings", "stopped", "totals", "not_stopped"].map(count);
    assert_eq!(counts, [1, 2, 1, 1, 0]);
    let queried = end(&mut courtesy(
        dir.path(),
        &["audit", "query", "--event", "started", "--event", "stopped", "--format", "table"],
    ));
    assert!(
        queried.stdout.contains("started") && queried.stdout.contains("SIGTERM"),
        "{queried:?}"
    );
    assert_eq!(queried.stdout.lines().count(), 3, "{queried:?}");
    let shown = end(&mut courtesy(dir.path(), &["audit", "show", "1"]));
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let said = format!(
        "courtesy {} ({}), serve; profiles",
        env!("CARGO_PKG_VERSION"),
        &started["program"].as_str().unwrap()[..12]
    );
    assert!(shown.stdout.starts_with("started  ") && shown.stdout.contains(&said), "{shown:?}");
}

fn settings_file(state: &Path, line: &Value) -> PathBuf {
    let sha256 = line["settings"].as_str().unwrap();
    state.join(format!("audit/evidence/{}/{sha256}.settings.gz", &sha256[..2]))
}

/// The settings that `line` names, checked as an auditor does.
fn settings(state: &Path, line: &Value) -> Value {
    let content = Command::new("zcat").arg(settings_file(state, line)).output().unwrap().stdout;
    assert_eq!(line["settings"], courtesy::types::sanitize::sha256_hex(&content));
    serde_json::from_slice(&content).unwrap()
}

#[test]
fn a_start_says_what_was_changed_and_which_exemptions_are_in_force() {
    let dir = state_dir();
    let file = dir.path().join("courtesy.toml");
    let exemption = |host: &str, until: &str| {
        format!(
            "[[exemptions]]\norigin = \"https://{host}\"\nby = \"legal\"\nreason = \"a contract\"\n\
             until = \"{until}\"\n"
        )
    };
    let both = exemption("a.example", "9999-01-01") + &exemption("b.example", "2020-01-01");
    let observed = format!("[robots]\nmode = \"observe\"\n{both}");
    for text in ["[robots]\nmode = \"enforce\"\n", &observed, &observed] {
        fs::write(&file, text).unwrap();
        Served::start(dir.path(), &["--config", file.to_str().unwrap()]).terminate();
    }
    let lines = lines(dir.path());
    let started: Vec<_> = lines.iter().filter(|line| line["event"] == "started").collect();
    let keys = |line: &Value| {
        let changes = line["changes"].as_array().unwrap().iter();
        changes.map(|change| change["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // Its ports are others each time.
    let is_of_file = |key: &String| !key.starts_with("listen.");
    let changed = |at: usize| keys(started[at]).into_iter().filter(is_of_file).collect::<Vec<_>>();
    assert_eq!(changed(1), ["exemptions", "robots.mode"], "{}", started[1]);
    assert_eq!(changed(2), [""; 0], "{}", started[2]);
    assert_eq!(started[0].get("exemptions"), None);
    let in_force = started[1]["exemptions"].as_array().unwrap();
    assert_eq!(in_force.len(), 1, "the other has ended: {in_force:?}");
    assert_eq!(
        ["by", "origin", "reason"].map(|member| in_force[0][member].as_str().unwrap()),
        ["legal", "https://a.example", "a contract"]
    );
    let shown = end(&mut courtesy(dir.path(), &["audit", "show", &started[1]["seq"].to_string()]));
    assert!(shown.stdout.contains("one exemption in force"), "{shown:?}");
    assert!(shown.stdout.contains("robots.mode: \"enforce\" → \"observe\""), "{shown:?}");

    // The settings are evidence like any other.
    let path = settings_file(dir.path(), started[1]);
    fs::remove_file(path).unwrap();
    let said = end(&mut courtesy(dir.path(), &["audit", "verify"]));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.contains("its evidence is missing"), "{said:?}");
}

#[test]
fn a_proxy_that_was_killed_shows_in_the_log() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let killed = Served::start(dir.path(), &[]);
    assert_eq!(killed.get(&site.url("/private/a")), 403);
    killed.kill();
    Served::start(dir.path(), &[]).terminate();
    let lines = lines(dir.path());
    assert_eq!(events(&lines), ["started", "denied", "started", "totals", "stopped"]);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert!(lines.iter().all(|line| line["node"] == host.as_str()), "{lines:?}");
    assert_eq!(lines[3]["recorded"]["denied"], 0, "another process counts anew");
    assert_eq!(verified(dir.path())["notices"]["not_stopped"], 1);
    let said = end(&mut courtesy(dir.path(), &["audit", "verify"])).stdout;
    assert!(
        said.contains("It was started again without having been stopped cleanly (once)."),
        "{said}"
    );
}

/// Every kind of file that a setting names but users, engine and parents, which have tests of their
/// own: it is read again when it changes, and the log says which setting names it.
#[test]
fn files_that_settings_name_are_followed_and_the_log_says_which() {
    let dir = state_dir();
    let at = |name: &str| dir.path().join(name);
    let write_private = |name: &str, text: &str| {
        fs::write(at(name), text).unwrap();
        fs::set_permissions(at(name), Permissions::from_mode(0o600)).unwrap();
    };
    let write_pair = |certificate: &str, key: &str, is_ca: bool| {
        let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        if is_ca {
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            params.distinguished_name.push(rcgen::DnType::CommonName, "an authority");
        }
        let pair = rcgen::KeyPair::generate().unwrap();
        write_private(key, &pair.serialize_pem());
        fs::write(at(certificate), params.self_signed(&pair).unwrap().pem()).unwrap();
    };
    let write = |key: &str, turn: usize| match key {
        "listen.tls_cert" => write_pair("proxy.pem", "proxy.key", false),
        "https.ca_cert" => write_pair("ca.pem", "ca.key", true),
        "tls.extra_roots" => write_pair("root.pem", "root.key", true),
        _ => write_private("token", &format!("the-token-of-turn-{turn}\n")),
    };
    let keys = ["listen.tls_cert", "https.ca_cert", "tls.extra_roots", "admin.token_file"];
    keys.iter().for_each(|key| write(key, 0));
    let file = at("courtesy.toml");
    let settings = "[listen]\ntls = true\ntls_cert = \"D/proxy.pem\"\ntls_key = \"D/proxy.key\"\n\
                    [https]\nca_cert = \"D/ca.pem\"\nca_key = \"D/ca.key\"\n\
                    [tls]\nextra_roots = [\"D/root.pem\"]\n[admin]\ntoken_file = \"D/token\"\n";
    fs::write(&file, settings.replace('D', dir.path().to_str().unwrap())).unwrap();
    let served = Served::start(dir.path(), &["--config", file.to_str().unwrap()]);
    let noticed = || -> Vec<Value> {
        let lines = lines(dir.path());
        let notices = lines.into_iter().filter(|line| line["event"] == "settings");
        notices.map(|line| line["contents"].clone()).collect()
    };
    for (turn, key) in keys.iter().enumerate() {
        write(key, turn + 1);
        until(key, || noticed().len() > turn);
        assert_eq!(noticed()[turn], serde_json::json!([key]));
    }
    // What cannot be used changes nothing, not even the token, and readiness names each file.
    let readiness = || {
        let token = "Authorization: Bearer the-token-of-turn-4";
        exchange(
            served.admin.unwrap(),
            &format!("GET /readyz HTTP/1.1\r\nHost: localhost\r\n{token}"),
        )
    };
    let names = ["proxy.pem", "ca.pem", "root.pem", "token"];
    let former = names.map(|name| fs::read_to_string(at(name)).unwrap());
    names.iter().for_each(|name| write_private(name, "nonsense"));
    let is_named = |name: &&str| readiness().contains(at(name).to_str().unwrap());
    until("each is named", || names.iter().all(is_named));
    names.iter().zip(&former).for_each(|(name, former)| write_private(name, former));
    until("all is as before", || readiness().contains("\"status\":\"ready\""));
    assert_eq!(noticed().len(), keys.len(), "nothing has changed");
    let said = served.terminate();
    for key in keys {
        let line = format!("a file has changed: from now on other contents hold: {key}\n");
        assert!(said.contains(&line), "{said}");
    }
    verified(dir.path());
}

//! Reading the settings again, in a process of its own: on a signal, and when a file has changed.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::serve::support::{Served, Site, courtesy, end, exchange, state_dir, status, until};

const ROBOTS_TXT: &str = "User-agent: *\nDisallow: /private/\n";
const RELOADS: &str = "courtesy_config_reloads_total";
const FAILURES: &str = "courtesy_config_reload_failures_total";

fn serve(dir: &Path, file: &Path) -> Served {
    Served::start(dir, &["--config", file.to_str().unwrap()])
}

#[test]
fn f22_invalid_settings_change_nothing_and_are_logged_with_line() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let file = dir.path().join("courtesy.toml");
    fs::write(&file, "[robots]\nmode = \"enforce\"\n").unwrap();
    let served = serve(dir.path(), &file);
    assert_eq!(served.get(&site.url("/private/")), 403);
    assert_eq!((served.metric(RELOADS), served.metric(FAILURES)), (0.0, 0.0));

    fs::write(&file, "[robots]\nmode = \"obsrve\"\nmax_sze = \"1MiB\"\n").unwrap();
    served.signal("HUP");
    served.wait_for(FAILURES, 1.0);
    assert_eq!(served.get(&site.url("/private/")), 403, "the former settings stay");
    let readiness = served.ask_admin("/readyz");
    assert_eq!(status(&readiness), 200, "it serves as well as before");
    let complaint = format!("{}:2: robots.mode", file.display());
    for part in ["\"status\":\"degraded\"", "\"part\":\"config\"", &complaint] {
        assert!(readiness.contains(part), "{part}: {readiness}");
    }
    let checked = end(&mut courtesy(dir.path(), &["config", "check", file.to_str().unwrap()]));
    assert_eq!(checked.code, Some(78), "{checked:?}");

    // Nobody has to say that it is mended.
    fs::write(&file, "[robots]\nmode = \"observe\"\n").unwrap();
    served.wait_for(RELOADS, 1.0);
    assert_eq!(served.get(&site.url("/private/")), 200);
    assert!(served.ask_admin("/readyz").contains("\"status\":\"ready\""));
    assert_eq!(served.metric(FAILURES), 1.0, "what was refused is not tried again and again");
    let said = served.terminate();
    let refusal =
        said.lines().find(|line| line.contains("SIGHUP: the settings stay as they were: "));
    let refusal = refusal.unwrap_or_else(|| panic!("{said}"));
    let other = format!(" | {}:3: robots.max_sze", file.display());
    assert!(
        refusal.contains(&complaint) && refusal.contains(&other),
        "all faults in one line: {said}"
    );
    assert!(
        said.contains("a file has changed: from now on other settings hold: robots.mode\n"),
        "{said}"
    );
}

/// A flag goes before the file at the start, and at each reading.
#[test]
fn what_flags_set_stays_when_the_file_is_read_again() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let file = dir.path().join("courtesy.toml");
    fs::write(&file, "[robots]\nmode = \"enforce\"\n[deny]\nstatus = 403\n").unwrap();
    let flags = ["--config", file.to_str().unwrap(), "--observe", "--set", "pace.concurrency=5"];
    let served = Served::start(dir.path(), &flags);
    assert_eq!(served.get(&site.url("/private/")), 200);
    fs::write(
        &file,
        "[robots]\nmode = \"enforce\"\n[deny]\nstatus = 451\n[pace]\nconcurrency = 2\n",
    )
    .unwrap();
    served.signal("HUP");
    served.wait_for(RELOADS, 1.0);
    assert_eq!(served.get(&site.url("/private/")), 200, "--observe");
    let config = served.ask_admin("/config");
    assert!(config.contains("\"--set\"") && config.contains("451"), "{config}");
    let said = served.terminate();
    assert!(said.contains("from now on other settings hold: deny.status\n"), "{said}");
}

/// An editor, or a `cp`, empties a file before it writes it.
#[test]
fn a_file_that_has_become_empty_takes_nothing_back() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let file = dir.path().join("courtesy.toml");
    fs::write(&file, "[robots]\nmode = \"observe\"\n").unwrap();
    let served = serve(dir.path(), &file);
    fs::write(&file, "").unwrap();
    served.signal("HUP");
    served.wait_for(FAILURES, 1.0);
    assert_eq!(served.get(&site.url("/private/")), 200, "the former settings stay");
    fs::write(&file, "# all as it is by itself\n").unwrap();
    served.wait_for(RELOADS, 1.0);
    assert_eq!(served.get(&site.url("/private/")), 403);
    let said = served.terminate();
    assert!(
        said.contains("courtesy.toml is empty; to have all settings at their defaults"),
        "{said}"
    );
}

/// As Kubernetes updates a ConfigMap: not the file changes, but a link on the way to it.
#[test]
fn a_file_that_comes_by_another_link_is_taken_up() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let at = |name: &str| dir.path().join(name);
    for (version, mode) in [("1", "enforce"), ("2", "observe")] {
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("courtesy.toml"), format!("[robots]\nmode = \"{mode}\"\n"))
            .unwrap();
    }
    symlink("1", at("..data")).unwrap();
    symlink("..data/courtesy.toml", at("courtesy.toml")).unwrap();
    let served = serve(dir.path(), &at("courtesy.toml"));
    assert_eq!(served.get(&site.url("/private/")), 403);
    symlink("2", at("..next")).unwrap();
    fs::rename(at("..next"), at("..data")).unwrap();
    served.wait_for(RELOADS, 1.0);
    assert_eq!(served.get(&site.url("/private/")), 200);
}

#[test]
fn what_needs_a_restart_is_named_once_and_the_rest_applies() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let file = dir.path().join("courtesy.toml");
    fs::write(&file, "").unwrap();
    let served = serve(dir.path(), &file);
    let settings = "workers = 7\n[listen]\nproxy = [\"127.0.0.1:9\"]\n[store]\nenabled = false\n\
                    [robots]\nmode = \"observe\"\n[log]\nlevel = \"debug\"\n";
    fs::write(&file, settings).unwrap();
    served.signal("HUP");
    served.wait_for(RELOADS, 1.0);
    assert_eq!(served.get(&site.url("/private/")), 200);
    served.signal("HUP");
    served.wait_for(RELOADS, 2.0);
    exchange(served.proxy, "GET nonsense HTTP/1.1\r\nHost: a");
    let said = served.terminate();
    // --listen goes before the file, now as at the start.
    let waits = "workers, store.enabled needs a restart, and stays as it was until then";
    assert_eq!(said.matches(waits).count(), 1, "{said}");
    assert!(said.contains("other settings hold: robots.mode, log.level"), "{said}");
    assert!(said.contains("DEBUG"), "{said}");
    assert!(said.contains("the settings are the same"), "{said}");
}

/// The CA is a part of the state.
#[test]
fn another_state_directory_waits_for_a_restart_and_so_does_the_ca_in_it() {
    let dir = state_dir();
    let (file, other) = (dir.path().join("courtesy.toml"), dir.path().join("other"));
    let write = |state: &Path| fs::write(&file, format!("state_dir = {state:?}\n")).unwrap();
    write(dir.path());
    let served = Served::begin(dir.path(), &["--config", file.to_str().unwrap()], |mut command| {
        command.env_remove("COURTESY__STATE_DIR");
        command
    });
    write(&other);
    served.signal("HUP");
    served.wait_for(RELOADS, 1.0);
    let said = served.terminate();
    assert!(said.contains("state_dir needs a restart"), "{said}");
    assert!(!said.contains("another CA") && !other.exists(), "{said}");
}

/// Clients have to trust the new one before the proxy signs with it, and only its operator knows.
#[test]
fn a_rotated_ca_signs_when_that_is_asked_for_and_not_before() {
    let dir = state_dir();
    let file = dir.path().join("courtesy.toml");
    fs::write(&file, "").unwrap();
    let served = serve(dir.path(), &file);
    let page = || {
        let head = "GET http://courtesy.internal/ca.pem HTTP/1.1\r\nHost: courtesy.internal\r\nConnection: close";
        exchange(served.proxy, head).matches("BEGIN CERTIFICATE").count()
    };
    let rotated = served.beside(&["ca", "rotate"]);
    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    fs::write(&file, "[deny]\nstatus = 410\n").unwrap();
    served.wait_for(RELOADS, 1.0);
    assert_eq!(page(), 1);
    served.signal("HUP");
    served.wait_for(RELOADS, 2.0);
    assert_eq!(page(), 2, "the new one, and the old one still");
    assert!(served.terminate().contains("another CA signs from now on"));
}

#[test]
fn readiness_ends_before_the_drain_and_a_second_signal_ends_at_once() {
    let dir = state_dir();
    // A site that answers nothing holds its request, and the drain.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let served = Served::start(dir.path(), &[]);
    let mut open = TcpStream::connect(served.proxy).unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    write!(open, "GET {url} HTTP/1.1\r\nHost: a\r\nUser-Agent: ExampleBot\r\n\r\n").unwrap();
    until("the request is there", || served.metric("courtesy_requests_under_way") == 1.0);
    served.signal("TERM");
    until("it drains", || status(&served.ask_admin("/readyz")) == 503);
    assert_eq!(served.metric("courtesy_requests_under_way"), 1.0);
    served.signal("INT");
    let (code, said) = served.wait();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("SIGTERM: finishing the requests under way"), "{said}");
}

/// Whether the watch of the files or the command comes first is a matter of luck, but for the CA.
#[test]
fn a_command_reloads_and_tells_what_came_of_it() {
    let dir = state_dir();
    let file = dir.path().join("courtesy.toml");
    let write = |text: &str| fs::write(&file, text).unwrap();
    write("[deny]\nstatus = 403\n");
    let served = serve(dir.path(), &file);
    let reload = || served.beside(&["reload"]);
    let same = reload();
    assert_eq!((same.code, same.stdout.as_str()), (Some(0), "the settings are the same\n"));

    let mut turn = 0;
    until("the command is the first to read a change", || {
        turn += 1;
        write(&format!("[deny]\nstatus = {}\n", 410 + turn % 2));
        let reloaded = reload();
        assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
        reloaded.stdout == "other settings hold: deny.status\n"
    });

    write("workers = 7\n[robots]\nmode = \"obsrve\"\nmax_sze = \"1MiB\"\n");
    let refused = reload();
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(78), ""), "{refused:?}");
    for part in [
        "error: the settings stay as they were: ",
        &format!("\n  {}:3: robots.mode", file.display()),
        &format!("\n  {}:4: robots.max_sze", file.display()),
    ] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    assert!(served.ask_admin("/readyz").contains("\"part\":\"config\""));

    write(
        "workers = 7\n[[exemptions]]\norigin = \"https://example.com\"\nby = \"me\"\n\
           reason = \"mine\"\nuntil = \"2001-01-01\"\n",
    );
    let waits = reload();
    assert_eq!(waits.code, Some(0), "{waits:?}");
    let words = "needs a restart, and stays as it was until then: workers\n";
    assert!(waits.stdout.ends_with(words), "{waits:?}");
    assert!(waits.stdout.starts_with("note: the exemption for https://example.com"), "{waits:?}");

    assert_eq!(served.beside(&["ca", "rotate"]).code, Some(0));
    let rotated = reload();
    assert!(rotated.stdout.starts_with("note: ") && rotated.code == Some(0), "{rotated:?}");
    assert!(rotated.stdout.contains("\nother contents hold: https.ca_cert\n"), "{rotated:?}");
    let said = served.terminate();
    assert!(
        said.contains("courtesy reload: from now on other settings hold: deny.status\n"),
        "{said}"
    );
    assert!(said.contains("another CA signs from now on"), "{said}");
    let shown = end(&mut courtesy(dir.path(), &["audit", "query", "--event", "settings"]));
    assert!(shown.stdout.contains("\"who\":\"command\""), "{shown:?}");
}

#[test]
fn where_no_proxy_runs_there_is_nothing_to_reload() {
    let dir = state_dir();
    let serve = || Served::start(dir.path(), &[]);
    let reload = || end(&mut courtesy(dir.path(), &["reload"]));
    let nobody =
        format!("error: no proxy runs with the state directory {}; ", dir.path().display());
    let none = reload();
    assert_eq!(none.code, Some(69), "{none:?}");
    assert!(none.stderr.starts_with(&nobody) && none.stderr.contains("--state-dir"), "{none:?}");
    // What a dead one leaves is none either.
    serve().kill();
    let dead = reload();
    assert!(dead.code == Some(69) && dead.stderr.starts_with(&nobody), "{dead:?}");
    let served = serve();
    assert_eq!(reload().code, Some(0));
    served.terminate();
}

#[test]
fn clients_are_served_before_the_drain_for_as_long_as_is_set() {
    let (dir, site) = (state_dir(), Site::start(ROBOTS_TXT));
    let served = Served::start(dir.path(), &["--set", "limits.drain_delay=1h"]);
    served.signal("TERM");
    until("it is not ready", || status(&served.ask_admin("/readyz")) == 503);
    assert_eq!(served.beside(&["health"]).code, Some(1));
    assert_eq!(served.get(&site.url("/")), 200, "a new connection");
    assert_eq!(served.get(&site.url("/private/")), 403);
    let late = served.beside(&["reload"]);
    assert!(late.code == Some(69) && late.stderr.contains("the proxy stops"), "{late:?}");
    served.signal("TERM");
    let (code, said) = served.wait();
    assert_eq!(code, Some(130), "a second signal waits for nothing: {said}");
    assert!(!said.contains("finishing the requests"), "{said}");

    let said = Served::start(dir.path(), &["--set", "limits.drain_delay=10ms"]).terminate();
    let (before, after) = said.split_once("clients are served as before for 10ms").expect(&said);
    assert!(!before.contains("finishing") && after.contains("finishing the requests"), "{said}");
}

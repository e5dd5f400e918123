//! Files that settings name and that change while the proxy runs: no restart, and no signal.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::testkit::parties::{Parent, Speaks};
use crate::testkit::processes::{Robots, Site};

fn write(file: &Path, content: &str) {
    // As editors and Kubernetes do: another file in the place of the former.
    let next = file.with_extension("next");
    fs::write(&next, content).expect("a directory that can be written to");
    fs::set_permissions(&next, Permissions::from_mode(0o600)).expect("a file of ours");
    fs::rename(&next, file).expect("the same directory");
}

#[test]
fn another_password_of_the_engine_is_taken_up_and_said() {
    let server = RedisServer::start(&["--requirepass", "first-secret"]);
    let place = Place::new("");
    let password = place.path().join("password");
    write(&password, "first-secret\n");
    let engine = settings(&server.socket());
    let file = format!("[engine]\npassword_file = \"{}\"", password.display());
    place.set(&engine.replacen("[engine]", &file, 1));
    let proxy = serve(&place);

    write(&password, "second-secret\n");
    until("it is refused", || proxy.metric("courtesy_engine_up") == 0);
    // As a rotation: the server follows.
    rotate(&server, "first-secret", "second-secret");
    until("it is reached again", || proxy.metric("courtesy_engine_up") == 1);
    let said = proxy.stop();
    assert!(said.contains("from now on other contents hold: engine.password_file"), "{said}");
    assert!(!said.contains("-secret"), "{said}");
}

/// Each connection of the test authenticates anew.
fn rotate(server: &RedisServer, from: &str, to: &str) {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(server.socket()).expect("a server");
    let commands = format!("AUTH {from}\r\nCONFIG SET requirepass {to}\r\n");
    stream.write_all(commands.as_bytes()).expect("a command");
    let mut said = Vec::new();
    while said.len() < "+OK\r\n+OK\r\n".len() {
        let mut some = [0; 64];
        let read = stream.read(&mut some).expect("a reply");
        said.extend_from_slice(&some[..read]);
    }
    assert_eq!(said, b"+OK\r\n+OK\r\n");
}

#[test]
fn another_server_in_the_file_of_the_url_is_used_from_then_on() {
    let (first, second) = (RedisServer::start(&[]), RedisServer::start(&[]));
    let site = Site::start(|_| Robots::File("User-agent: *\nDisallow: /private/\n".to_owned()));
    let place = Place::new("");
    let url = |server: &RedisServer| format!("redis+unix://{}\n", server.socket().display());
    let file = place.path().join("engine.url");
    write(&file, &url(&first));
    place.set(&format!("[engine]\nurl_file = \"{}\"\n", file.display()));
    let proxy = serve(&place);
    write(&file, &url(&second));
    let has_keys = |server: &RedisServer| server.command(&["KEYS", "*"]).texts().len() > 1;
    until("the other one has its heartbeat", || has_keys(&second));
    assert_eq!(proxy.get(&site.url("/private/")).status, 403);
    let said = proxy.stop();
    assert!(said.contains("other contents hold: engine.url_file"), "{said}");
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing_and_is_named() {
    let server = RedisServer::start(&[]);
    let place = Place::new("");
    let seal = place.path().join("seal");
    write(&seal, "0123456789abcdef\n");
    let engine = settings(&server.socket());
    let file = format!("[engine]\nseal_key_file = \"{}\"", seal.display());
    place.set(&engine.replacen("[engine]", &file, 1));
    let proxy = serve(&place);
    write(&seal, "short\n");
    until("it is named", || proxy.admin("/readyz").body.contains("engine.seal_key_file"));
    assert_eq!(proxy.metric("courtesy_engine_up"), 1);
    write(&seal, "fedcba9876543210\n");
    until("it is mended", || !proxy.admin("/readyz").body.contains("engine.seal_key_file"));
    let said = proxy.stop();
    assert!(said.contains("other contents hold: engine.seal_key_file"), "{said}");
}

#[test]
fn other_credentials_of_a_parent_are_used_from_then_on() {
    let parent = Parent::start(Speaks::Http);
    parent.requires("crawler:second-secret");
    let site = Site::start(|_| Robots::File("User-agent: *\nDisallow: /private/\n".to_owned()));
    let place = Place::new("");
    let file = place.path().join("credentials");
    write(&file, "crawler:first-secret\n");
    place.set(&format!(
        "[egress]\nparent = \"{}\"\nparent_credentials_file = \"{}\"\n",
        parent.url(),
        file.display()
    ));
    let proxy = place.serve();
    assert_ne!(proxy.get(&site.url("/page")).status, 200);
    let ready = proxy.admin("/readyz");
    assert!(ready.body.contains("egress.parent_credentials_file (407)"), "{}", ready.body);
    assert_eq!(ready.status, 503, "its only parent refuses");
    write(&file, "crawler:second-secret\n");
    until("they are used", || proxy.get(&site.url("/page")).status == 200);
    assert!(proxy.is_ready());
    let said = proxy.stop();
    assert!(said.contains("other contents hold: egress.parent_credentials_file"), "{said}");
    assert!(!said.contains("-secret"), "{said}");
}

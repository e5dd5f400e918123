//! Go and Java.

use crate::support::{Run, Site, apt, end, program};

/// Go's own verifier, which is stricter than RFC 5280 asks for.
#[test]
fn go_net_http() {
    let go = apt("go", "golang-go", &["version"]);
    let site = Site::start();
    let run = Run::of(&site);
    let client = run.directory().join("client");
    let built = end(run
        .command(&go)
        .args(["build", "-o"])
        .arg(&client)
        .arg(program("client.go"))
        // Kept, for it is the compiled standard library that takes the time.
        .env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go"))
        .env("GO111MODULE", "off"));
    assert_eq!(built.code, Some(0), "{built:#?}");
    let answers = run.four([client.to_string_lossy()], "Go-http-client/");
    assert_eq!(answers[2].version, "2");
}

#[test]
fn java_http_client() {
    let java = apt("java", "default-jdk-headless", &["-version"]);
    apt("keytool", "default-jdk-headless", &["-help"]);
    let site = Site::start();
    let answers = Run::of(&site).four([java, program("Client.java")], "Java-http-client/");
    assert_eq!(answers[2].version, "2");
}

//! Go and Java.

use crate::clients::support::{Run, Site, apt, end, program};

/// Go's own verifier, which is stricter than RFC 5280 asks for.
#[test]
#[ignore = "nightly"]
fn go_net_http() {
    let go = apt("go", "golang-go");
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
#[ignore = "nightly"]
fn java_http_client() {
    let java = apt("java", "default-jdk-headless");
    apt("keytool", "default-jdk-headless");
    let site = Site::start();
    let run = Run::of(&site);
    // The variable that tells it whom to trust is the one that leads it here: it has no other.
    let client = [java, program("Client.java")].into_iter().chain(site.four());
    let answers = run.four_by(run.client(client), "Java-http-client/");
    assert_eq!(answers[2].version, "2");
}

/// What `new URL(…).openStream()` and jsoup are made of.
#[test]
#[ignore = "nightly"]
fn java_http_url_connection() {
    let java = apt("java", "default-jdk-headless");
    let site = Site::start();
    let run = Run::of(&site);
    let client = [java, program("UrlConnection.java")].into_iter().chain(site.four());
    run.four_by(run.client(client), "Java/");
}

//! Variables that name a proxy to other programs, in the environment of courtesy itself.

use std::net::TcpListener;

use crate::testkit::processes::{Place, Serve, Site};

const VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

#[test]
fn proxy_variables_of_the_process_itself_mean_nothing() {
    let site = Site::with_rules("User-agent: *\nDisallow: /private/\n");
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    other.set_nonblocking(true).expect("a socket");
    let url = format!("http://{}", other.local_addr().expect("an address"));
    let place = Place::new("");
    let mut command = place.command("serve --allow-private");
    command.envs(VARIABLES.map(|name| (name, &url)));
    let serve = Serve::start(command);
    assert_eq!(serve.get(&site.url("/open")).status, 200);
    assert_eq!(serve.get(&site.url("/private/a")).status, 403);
    assert_eq!(site.fetches(), 1);
    serve.stop();
    let asked = other.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(asked, Err(std::io::ErrorKind::WouldBlock), "nothing goes there");
}

#[test]
fn doctor_says_that_a_variable_means_nothing() {
    let parent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let parent = format!("http://{}", parent.local_addr().expect("an address"));
    let place = Place::new(&format!("[egress]\nparent = \"{parent}\"\n"));
    for (name, expected) in [("https_proxy", true), ("OTHER", false)] {
        let mut command = place.command("doctor --json wget");
        let output = command.env(name, "http://127.0.0.1:9").output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(&format!("parent proxy {parent}")), "{said}");
        let note = format!("{name} is set, and means nothing to courtesy");
        assert_eq!(said.contains(&note), expected, "{name}: {said}");
    }
}

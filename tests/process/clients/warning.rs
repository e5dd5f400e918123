//! What `courtesy run` says of a command that has connections of its own, in a network where the site is
//! not on loopback.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::Value;

use crate::clients::support::{Run, Site, inside, program, python};

/// Waits for the warning while the connection is held, so it cannot be missed.
#[test]
fn a_connection_of_the_commands_own_is_warned_about() {
    inside(|| {
        let site = Site::elsewhere();
        let run = Run::of(&site).without_loopback();
        let listener = TcpListener::bind("0.0.0.0:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        // A process below the command's own; the address is that of site.example.
        let script = format!("exec 3<>/dev/tcp/10.9.8.7/{port}; cat <&3; true");
        let mut command = run.command(env!("CARGO_BIN_EXE_courtesy"));
        command.args([
            "run",
            "--summary-file=summary.txt",
            "--",
            "sh",
            "-c",
            "bash -c \"$0\"; true",
            &script,
        ]);
        command.env("COURTESY_CONFIG", run.directory().join("courtesy.toml"));
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (held, _) = listener.accept().expect("a connection");
        let mut said =
            BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let warning = said.find(|line| line.contains("went around the proxy")).expect("it is said");
        assert!(warning.contains(&format!(" to 10.9.8.7:{port}; ")), "{warning}");
        drop(held);
        assert!(child.wait().expect("it ends").success());
        let summary =
            std::fs::read_to_string(run.directory().join("summary.txt")).expect("a summary");
        assert!(summary.contains("the command had 1 connection of its own ("), "{summary}");
        assert!(summary.contains("or use --sealed"), "{summary}");
        assert!(
            summary.contains(&format!(" to 10.9.8.7:{port}): it does not come by the proxy")),
            "{summary}"
        );
    });
}

/// The same program, told of the proxy or not: the held answer gives the looks all the time they need.
#[test]
fn who_comes_by_the_proxy_is_not_warned_about() {
    inside(|| {
        let site = Site::elsewhere();
        let run = Run::of(&site).without_loopback();
        // It stays connected to the proxy until that has been looked at, some looks long.
        let client =
            [python("http.client"), program("stay_connected.py"), site.url("http", "/page")];
        let ended = run.client(client);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let summary = run.summary();
        assert_eq!(summary["forwarded"], 1, "{summary}");
        assert_eq!(
            [&summary["warning"], &summary["own_connections"]["count"]],
            [&Value::Null, &0.into()]
        );
    });
}

//! Sockets that somebody else has bound: they are served instead of those that are set, and a restart
//! refuses nobody.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::serve::support::{Served, Site, exchange, state_dir, status, until};

/// What the service manager does: the socket as the third descriptor, and who is meant. Only the
/// process itself knows its own number before it begins, so a shell tells it.
pub fn handing_over(socket: &TcpListener, name: &str, command: Command) -> Command {
    let script = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";
    let mut wrapped = Command::new("/bin/sh");
    wrapped.args(["-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
    wrapped.env_clear().env("LISTEN_FDNAMES", name);
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    wrapped.stdin(Stdio::from(OwnedFd::from(socket.try_clone().unwrap())));
    wrapped
}

fn serve(dir: &Path, socket: &TcpListener, name: &str) -> Served {
    Served::begin(dir, &[], |command| handing_over(socket, name, command))
}

#[test]
fn a_socket_that_is_handed_over_is_served_instead_of_the_one_that_is_set() {
    let (dir, site) = (state_dir(), Site::start(""));
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let served = serve(dir.path(), &socket, "");
    assert_eq!(served.proxy, socket.local_addr().unwrap());
    assert_eq!(served.get(&site.url("/")), 200);
    served.signal("HUP");
    served.wait_for("courtesy_config_reloads_total", 1.0);
    let said = served.terminate();
    assert!(!said.contains("needs a restart"), "{said}");
}

#[test]
fn the_one_called_admin_is_the_operators() {
    let dir = state_dir();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let served = serve(dir.path(), &socket, "admin");
    assert_eq!(served.admin, Some(socket.local_addr().unwrap()));
    assert_ne!(served.proxy, socket.local_addr().unwrap());
    assert_eq!(status(&served.ask_admin("/readyz")), 200);
}

/// A connection to it that no rule has redirected is closed without a response.
#[test]
fn the_one_called_transparent_is_for_redirected_connections() {
    let dir = state_dir();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let served = serve(dir.path(), &socket, "transparent");
    assert_ne!(served.proxy, address);
    let mut client = std::net::TcpStream::connect(address).unwrap();
    assert_eq!(std::io::Read::read(&mut client, &mut [0]).unwrap(), 0);
    served.wait_for("courtesy_connections_accepted_total{listener=\"transparent\"}", 1.0);
    served.signal("HUP");
    served.wait_for("courtesy_config_reloads_total", 1.0);
    let said = served.terminate();
    assert!(!said.contains("needs a restart"), "{said}");
}

/// No exception for a socket that others bind: who could come in has to be let in.
#[test]
fn a_socket_for_other_machines_asks_for_a_setting_like_any_other() {
    let dir = state_dir();
    let socket = TcpListener::bind("0.0.0.0:0").unwrap();
    let command = crate::serve::support::courtesy(dir.path(), &["serve", "--admin", "off"]);
    let ended = crate::serve::support::end(&mut handing_over(&socket, "", command));
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.stderr.contains("$LISTEN_FDS: listen.proxy"), "{}", ended.stderr);
}

/// Requests all the while, each on a connection of its own, which is what a restart could refuse.
#[test]
fn f14_a_restart_with_inherited_sockets_refuses_no_connection() {
    let (dir, site) = (state_dir(), Site::start("User-agent: *\nDisallow: /private/\n"));
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy: SocketAddr = socket.local_addr().unwrap();
    let (over, denied) = (AtomicBool::new(false), AtomicUsize::new(0));
    let ask = || {
        let head = format!(
            "GET {} HTTP/1.1\r\nHost: a\r\nUser-Agent: ExampleBot\r\nConnection: close",
            site.url("/private/")
        );
        while !over.load(Ordering::SeqCst) {
            assert_eq!(status(&exchange(proxy, &head)), 403);
            denied.fetch_add(1, Ordering::SeqCst);
        }
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(ask)));
        for _ in 0..3 {
            let served = serve(dir.path(), &socket, "");
            let enough = denied.load(Ordering::SeqCst) + 50;
            until("some are answered", || denied.load(Ordering::SeqCst) >= enough);
            served.terminate();
        }
        let served = serve(dir.path(), &socket, "");
        over.store(true, Ordering::SeqCst);
        until("the last are answered", || served.metric("courtesy_requests_under_way") == 0.0);
        // Those who wait in the queue of the socket are answered by this one.
        served
    })
    .terminate();
    let log = std::fs::read_to_string(dir.path().join("audit/denials.jsonl")).unwrap();
    let records = log.lines().filter(|line| line.contains("\"reason\":")).count();
    assert_eq!(records, denied.load(Ordering::SeqCst));
}

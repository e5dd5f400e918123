//! What the system grants: descriptors, of which there may be few, and no core files.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;
use socket2::{Domain, Socket, Type};

use crate::serve::support::{Served, Site, state_dir, status, until};

fn limited(script: &str, command: &Command) -> Command {
    let mut wrapped = Command::new("/bin/sh");
    wrapped.args(["-c", &format!("{script}; exec \"$@\""), "sh"]);
    wrapped.arg(command.get_program()).args(command.get_args()).env_clear();
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    wrapped
}

/// Soft and hard limit, as /proc tells them.
fn limits(served: &Served, name: &str) -> [String; 2] {
    let all = std::fs::read_to_string(format!("/proc/{}/limits", served.id())).unwrap();
    let line = all.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let mut words = line.split_whitespace().map(str::to_owned);
    [words.next().unwrap(), words.next().unwrap()]
}

/// Processor time so far, in clock ticks (a hundredth of a second).
fn ticks(served: &Served) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", served.id())).unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// One exchange on a connection that is kept.
fn get(stream: &mut TcpStream, url: &str) -> u16 {
    write!(stream, "GET {url} HTTP/1.1\r\nHost: a\r\nUser-Agent: ExampleBot\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"a page\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    status(&String::from_utf8(answer).unwrap())
}

#[test]
fn f18_without_descriptors_connected_clients_are_served() {
    let (dir, sites) = (state_dir(), [Site::start(""), Site::start("")]);
    let served = Served::begin(dir.path(), &["--workers", "2"], |command| {
        limited("ulimit -n 256", &command)
    });
    assert!(
        served.said.contains("clients.max_connections is 10000, and the limit on open files"),
        "{}",
        served.said
    );
    // No client has all places: the crowd comes from several addresses.
    let connect = |from: u8| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, from], 0)).into()).unwrap();
        socket.connect_timeout(&served.proxy.into(), Duration::from_secs(20)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        TcpStream::from(socket)
    };
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", served.id())).unwrap().count();
    let at_rest = descriptors();
    let mut inside = connect(1);
    assert_eq!(get(&mut inside, &sites[0].url("/")), 200);
    // More than there are descriptors for, and no more than the system's queue takes beside them; they
    // say nothing.
    let crowd: Vec<_> = (0..150).map(|number| connect(2 + number % 10)).collect();
    until("it has let in as many as it can", || descriptors() - at_rest > 20);

    let (began, before) = (monotonic(), ticks(&served));
    while monotonic() - began < Duration::from_secs(1) {
        // Whoever is in finds descriptors for sites that nobody has asked for yet.
        assert_eq!(get(&mut inside, &sites[1].url("/")), 200);
        std::thread::park_timeout(Duration::from_millis(100));
    }
    assert!(descriptors() < 256);
    let spent = ticks(&served) - before;
    assert!(spent < 50, "{spent} ticks in a second: it is busy with waiting");

    let mut waiting = connect(1);
    drop(crowd);
    assert_eq!(get(&mut waiting, &sites[0].url("/")), 200);
    assert_eq!(served.metric("courtesy_panics_total"), 0.0);
    served.terminate();
}

#[test]
fn serve_raises_its_descriptor_limit_and_allows_no_core_file() {
    let dir = state_dir();
    let served = Served::begin(dir.path(), &[], |command| {
        limited("ulimit -Sn 128; ulimit -Hn 4096", &command)
    });
    assert_eq!(limits(&served, "Max open files"), ["4096", "4096"]);
    assert_eq!(limits(&served, "Max core file size")[0], "0");
}

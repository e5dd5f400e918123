//! What the service manager is told (sd_notify(3)), on a socket as it has one.

use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use crate::serve::support::{Served, courtesy, end, state_dir};

/// The manager's end.
struct Manager(UnixDatagram);

impl Manager {
    fn listen(dir: &Path) -> Self {
        let socket = UnixDatagram::bind(dir.join("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(socket)
    }

    /// `courtesy serve` as this manager's service; its watchdog waits for `watchdog` microseconds.
    fn start(&self, dir: &Path, watchdog: &str, arguments: &[&str]) -> Served {
        Served::begin(dir, arguments, |mut command| {
            command.env("NOTIFY_SOCKET", dir.join("notify")).env("WATCHDOG_USEC", watchdog);
            command
        })
    }

    /// What is said next.
    #[track_caller]
    fn hear(&self) -> String {
        let mut message = [0; 4096];
        let length = self.0.recv(&mut message).expect("a message in time");
        String::from_utf8(message[..length].to_vec()).unwrap()
    }

    /// What is said next beside signs of life.
    #[track_caller]
    fn hear_news(&self) -> String {
        loop {
            let message = self.hear();
            if message != "WATCHDOG=1\n" {
                return message;
            }
        }
    }

    fn is_silent(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        self.0.recv(&mut [0; 64]).is_err()
    }
}

const READY: &str = "READY=1\nSTATUS=serving\n";
const LONG: &str = "600000000";

#[test]
fn the_manager_hears_when_clients_are_served_and_when_no_more_are() {
    let dir = state_dir();
    let manager = Manager::listen(dir.path());
    let served = manager.start(dir.path(), LONG, &[]);
    assert_eq!(manager.hear(), READY);
    assert!(TcpStream::connect(served.proxy).is_ok());
    served.terminate();
    assert_eq!(manager.hear(), "STOPPING=1\nSTATUS=finishing the requests under way\n");
    assert!(manager.is_silent());
}

#[test]
fn signs_of_life_come_until_the_end() {
    let dir = state_dir();
    let manager = Manager::listen(dir.path());
    let served = manager.start(dir.path(), "90000", &["--workers", "3"]);
    assert_eq!(manager.hear(), READY);
    for _ in 0..5 {
        assert_eq!(manager.hear(), "WATCHDOG=1\n");
    }
    served.terminate();
    assert!(manager.hear_news().starts_with("STOPPING=1\n"));
    assert!(manager.is_silent());
}

#[test]
fn a_reload_is_told_from_its_beginning_to_its_end_and_how_it_ended() {
    let dir = state_dir();
    let (manager, file) = (Manager::listen(dir.path()), dir.path().join("courtesy.toml"));
    std::fs::write(&file, "[deny]\nstatus = 403\n").unwrap();
    let served = manager.start(dir.path(), LONG, &["--config", file.to_str().unwrap()]);
    assert_eq!(manager.hear(), READY);
    let reloading = |content: &str| {
        std::fs::write(&file, content).unwrap();
        served.signal("HUP");
        let told = manager.hear();
        let time = told.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect(&told).trim_end();
        assert!(time.parse::<u64>().unwrap() > 0);
        manager.hear()
    };
    assert_eq!(reloading("[deny]\nstatus = 451\n"), READY);
    let told = reloading("[deny]\nstatus = 45\n");
    assert!(
        told.starts_with("READY=1\nSTATUS=serving; the settings stay as they were: "),
        "{told}"
    );
    assert!(told.contains("deny.status") && told.lines().count() == 2, "{told}");
    assert_eq!(reloading("[deny]\nstatus = 451\n"), READY);
    served.terminate();
}

#[test]
fn who_cannot_serve_is_never_ready() {
    let dir = state_dir();
    let manager = Manager::listen(dir.path());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = courtesy(dir.path(), &["serve", "--admin", "off", "--listen", &address]);
    let ended = end(command.env("NOTIFY_SOCKET", dir.path().join("notify")));
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    assert!(manager.is_silent());
}

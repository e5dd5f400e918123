//! The first moments of a process: what a signal does then, and what a client sees of one that does not
//! come to serve.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::serve::sockets::handing_over;
use crate::serve::support::{Served, Site, courtesy, end, state_dir, status, until};

/// A file of trusted roots that the start waits for: nothing can be read from it before the test writes.
struct Gate {
    path: PathBuf,
    certificate: Vec<u8>,
}

impl Gate {
    /// In a state directory that has been used before, whose CA is a root like any other.
    fn set(dir: &Path) -> Self {
        Served::start(dir, &[]).terminate();
        let path = dir.join("roots.pem");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        Self { path, certificate: fs::read(dir.join("ca/ca.pem")).unwrap() }
    }

    /// Waits until the process is here.
    fn reached(&self) -> File {
        File::options().write(true).open(&self.path).unwrap()
    }

    /// Lets it go on; a later look finds an ordinary file.
    fn open(self, mut held: File) {
        let ordinary = self.path.with_extension("new");
        fs::write(&ordinary, &self.certificate).unwrap();
        fs::rename(ordinary, &self.path).unwrap();
        held.write_all(&self.certificate).unwrap();
    }

    fn arguments(&self) -> [&str; 2] {
        ["--extra-root", self.path.to_str().unwrap()]
    }
}

fn signal(process: &Child, name: &str) {
    assert!(
        Command::new("kill")
            .args(["-s", name, &process.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
}

/// Whatever it is busy with: the settings have been read, and nothing has been opened yet.
#[test]
fn a_hang_up_while_it_starts_is_obeyed_when_it_serves() {
    let (dir, site) = (state_dir(), Site::start(""));
    let gate = Gate::set(dir.path());
    let arguments = gate.arguments().map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let served = std::thread::scope(|scope| {
        let starting = scope.spawn(|| Served::start(dir.path(), &arguments));
        let held = gate.reached();
        let id = started(dir.path());
        for _ in 0..50 {
            assert!(Command::new("kill").args(["-s", "HUP", &id]).status().unwrap().success());
        }
        gate.open(held);
        starting.join().unwrap()
    });
    served.wait_for("courtesy_config_reloads_total", 1.0);
    assert_eq!(served.get(&site.url("/")), 200);
    served.terminate();
}

/// The number of the process that starts in `dir`: the one that has its state directory as a setting.
fn started(dir: &Path) -> String {
    let setting = format!("COURTESY__STATE_DIR={}", dir.display());
    let is_it = |id: &String| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == setting.as_bytes())
    };
    let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).find(is_it).expect("a process")
}

/// There is nothing to finish yet, and it does not wait for what it waits for.
#[test]
fn what_ends_a_proxy_ends_one_that_starts() {
    for name in ["TERM", "INT"] {
        let dir = state_dir();
        let gate = Gate::set(dir.path());
        let mut command =
            courtesy(dir.path(), &["serve", "--admin", "off", "--listen", "127.0.0.1:0"]);
        command.args(gate.arguments()).stdout(Stdio::null()).stderr(Stdio::piped());
        let process = command.spawn().unwrap();
        let held = gate.reached();
        signal(&process, name);
        let output = process.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("stopped before it served") && !said.contains("listening"), "{said}");
        drop(held);
    }
}

/// Sets what it guards when it is dropped: a scope waits for the thread that looks.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_second_process_on_one_state_lets_in_no_client() {
    let (dir, site) = (state_dir(), Site::start(""));
    let first = Served::start(dir.path(), &[]);
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let (over, tried) = (AtomicBool::new(false), AtomicUsize::new(0));
    let text = address.to_string();
    for flag in ["--listen", "--admin"] {
        let other = if flag == "--admin" { "--listen" } else { "--admin" };
        let arguments = ["serve", flag, &text, other, "127.0.0.1:0"];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    let refused = TcpStream::connect(address).unwrap_err();
                    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{flag}");
                    tried.fetch_add(1, Ordering::SeqCst);
                }
            });
            let _over = Over(&over);
            let ended = end(&mut courtesy(dir.path(), &arguments));
            assert_eq!(ended.code, Some(69), "{ended:?}");
            assert!(ended.stderr.contains("another courtesy uses"), "{ended:?}");
        });
        over.store(false, Ordering::SeqCst);
    }
    assert!(tried.load(Ordering::SeqCst) > 0);
    assert_eq!(first.get(&site.url("/")), 200);
    first.terminate();
}

/// Who waits in the queue of a socket that was handed over goes on waiting, for a process that serves.
#[test]
fn a_second_process_on_one_state_drops_no_client() {
    let (dir, site) = (state_dir(), Site::start(""));
    let first = Served::start(dir.path(), &[]);
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy: SocketAddr = socket.local_addr().unwrap();
    let mut clients: Vec<_> = (0..5).map(|_| TcpStream::connect(proxy).unwrap()).collect();
    let command = courtesy(dir.path(), &["serve", "--admin", "off"]);
    let ended = end(&mut handing_over(&socket, "", command));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    first.terminate();
    let served = Served::begin(dir.path(), &[], |command| handing_over(&socket, "", command));
    for client in &mut clients {
        let url = site.url("/");
        let head = format!(
            "GET {url} HTTP/1.1\r\nHost: a\r\nUser-Agent: ExampleBot\r\nConnection: close\r\n\r\n"
        );
        client.write_all(head.as_bytes()).unwrap();
        assert_eq!(status(&std::io::read_to_string(client).unwrap()), 200);
    }
    served.terminate();
}

#[test]
fn an_address_in_use_is_told_before_anything_is_opened() {
    let dir = state_dir();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = end(&mut courtesy(dir.path(), &["serve", "--admin", "off", "--listen", &address]));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.stderr.contains(&format!("cannot listen on {address}")), "{ended:?}");
    assert!(!dir.path().join("audit").exists());
    until("nobody was accepted", || {
        taken.set_nonblocking(true).unwrap();
        taken.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    });
}

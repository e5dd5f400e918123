//! A scripted parent proxy: it notes what it is asked for, and relays or answers something else.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::{DEADLINE, tls};

/// What a parent speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    Http,
    /// HTTP inside TLS, with the certificate of the origins.
    Https,
    Socks5,
}

/// What it does with a request.
#[derive(Clone, Debug)]
pub enum Does {
    /// Connects to the port of the request, on this machine, or to that which stands for it.
    Relay,
    /// Sends these bytes in place of the answer, and closes.
    Answer(Vec<u8>),
    /// Sends nothing.
    Hold,
}

/// A parent on a port of its own.
#[derive(Debug)]
pub struct Parent {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    speaks: Speaks,
    does: Does,
    /// Requires this name and password, as `name:password`.
    credentials: Option<String>,
    asked: Vec<String>,
    /// Ports that stand for others.
    ports: HashMap<u16, u16>,
    /// The heads of the requests, where it speaks HTTP.
    heads: Vec<String>,
}

impl Parent {
    pub fn start(speaks: Speaks) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (does, credentials, asked) = (Does::Relay, None, Vec::new());
        let state =
            State { speaks, does, credentials, asked, ports: HashMap::new(), heads: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let served = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&served);
                thread::spawn(move || serve(stream, &state));
            }
        });
        Self { address, state }
    }

    /// Its URL, as the settings have it.
    pub fn url(&self) -> String {
        let scheme = match self.state.lock().expect("no panic").speaks {
            Speaks::Http => "http",
            Speaks::Https => "https",
            Speaks::Socks5 => "socks5h",
        };
        format!("{scheme}://{}", self.address)
    }

    pub fn does(&self, does: Does) {
        self.state.lock().expect("no panic").does = does;
    }

    /// Connects to `port` for each request for `asked`.
    pub fn leads(&self, asked: u16, port: u16) {
        self.state.lock().expect("no panic").ports.insert(asked, port);
    }

    pub fn requires(&self, credentials: &str) {
        self.state.lock().expect("no panic").credentials = Some(credentials.to_owned());
    }

    /// The heads of the requests, where it speaks HTTP.
    pub fn heads(&self) -> Vec<String> {
        self.state.lock().expect("no panic").heads.clone()
    }

    /// The hosts and ports that it was asked for, in the order of the requests.
    pub fn asked(&self) -> Vec<String> {
        self.state.lock().expect("no panic").asked.clone()
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    let (speaks, does, credentials) = {
        let state = state.lock().expect("no panic");
        (state.speaks, state.does.clone(), state.credentials.clone())
    };
    let mut client: Box<dyn super::wire::Stream> = match speaks {
        Speaks::Https => tls::accept(&tls::origin_config(), stream),
        Speaks::Http | Speaks::Socks5 => Box::new(stream),
    };
    let (asked, success) = match speaks {
        Speaks::Socks5 => (socks(&mut client, credentials.as_deref()).ok()??, SOCKS_SUCCESS),
        _ => {
            let (asked, head) = connect(&mut client, credentials.as_deref()).ok()??;
            state.lock().expect("no panic").heads.push(head);
            (asked, HTTP_SUCCESS)
        }
    };
    state.lock().expect("no panic").asked.push(asked.clone());
    match does {
        Does::Hold => {
            let _ = client.read(&mut [0]);
        }
        Does::Answer(bytes) => {
            client.write_all(&bytes).ok()?;
            client.flush().ok()?;
            client.finish().ok()?;
        }
        Does::Relay => {
            let port = asked.rsplit_once(':')?.1.parse().ok()?;
            let port = state.lock().expect("no panic").ports.get(&port).copied().unwrap_or(port);
            let origin = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
            client.write_all(success).ok()?;
            client.flush().ok()?;
            relay(client, origin);
        }
    }
    Some(())
}

const HTTP_SUCCESS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nVia: 1.1 parent\r\n\r\n";
const SOCKS_SUCCESS: &[u8] = &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0];

/// Reads the head of a CONNECT, byte by byte; answers 407 without the right credentials.
fn connect(
    client: &mut Box<dyn super::wire::Stream>,
    credentials: Option<&str>,
) -> io::Result<Option<(String, String)>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let basic = credentials.map(|it| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(it)
    });
    if basic.is_some_and(|basic| !head.contains(&format!("Proxy-Authorization: Basic {basic}\r\n")))
    {
        client.write_all(b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\n\r\n")?;
        client.finish()?;
        return Ok(None);
    }
    let mut words = head.split(' ');
    let asked = (words.next() == Some("CONNECT")).then(|| words.next()).flatten();
    Ok(asked.map(|asked| (asked.to_owned(), head.clone())))
}

/// Reads the messages of SOCKS5.
fn socks(
    client: &mut Box<dyn super::wire::Stream>,
    credentials: Option<&str>,
) -> io::Result<Option<String>> {
    let [_, count] = read(client)?;
    let mut methods = vec![0; usize::from(count)];
    client.read_exact(&mut methods)?;
    let method = if credentials.is_some() { 2 } else { 0 };
    let method = if methods.contains(&method) { method } else { 0xff };
    client.write_all(&[5, method])?;
    if let (2, Some(expected)) = (method, credentials) {
        let [_version] = read(client)?;
        let (name, password) = (counted(client)?, counted(client)?);
        let is_right = format!("{name}:{password}") == expected;
        client.write_all(&[1, u8::from(!is_right)])?;
        if !is_right {
            return Ok(None);
        }
    }
    let [_, _, _, kind] = read(client)?;
    let host = match kind {
        1 => Ipv4Addr::from(read::<4>(client)?).to_string(),
        3 => counted(client)?,
        _ => return Ok(None),
    };
    Ok(Some(format!("{host}:{}", u16::from_be_bytes(read(client)?))))
}

fn read<const N: usize>(from: &mut Box<dyn super::wire::Stream>) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn counted(from: &mut Box<dyn super::wire::Stream>) -> io::Result<String> {
    let [count] = read(from)?;
    let mut bytes = vec![0; usize::from(count)];
    from.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Moves bytes both ways until one side ends. One thread: a read that finds nothing gives way.
fn relay(mut client: Box<dyn super::wire::Stream>, mut origin: TcpStream) {
    let pause = std::time::Duration::from_millis(2);
    let _ = client.tcp().set_read_timeout(Some(pause));
    let _ = origin.set_read_timeout(Some(pause));
    let mut buffer = vec![0; 64 << 10];
    let mut goes_on = true;
    while goes_on {
        goes_on = step(&mut client, &mut origin, &mut buffer).unwrap_or(false)
            && step(&mut origin, &mut client, &mut buffer).unwrap_or(false);
    }
    let _ = client.finish();
    let _ = origin.shutdown(Shutdown::Both);
}

/// Moves what is there. False: the end.
fn step(from: &mut impl Read, to: &mut impl Write, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read(buffer) {
        Ok(0) => Ok(false),
        Ok(count) => {
            to.write_all(&buffer[..count])?;
            to.flush()?;
            Ok(true)
        }
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
        {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

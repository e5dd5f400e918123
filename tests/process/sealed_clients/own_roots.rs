//! A client that carries its own roots, as those of rustls with webpki-roots do: no file of the
//! machine makes it trust the CA. It gets nothing by HTTPS, and the log says so.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{assert_sealed, table};

#[test]
fn a_client_with_roots_of_its_own_is_named() {
    let ended = assert_sealed(table::OWN_ROOTS, "", "");
    let warnings: Vec<_> =
        ended.said.lines().filter(|line| line.contains("trust the proxy's CA")).collect();
    assert_eq!(warnings.len(), 2, "one in each run: {}", ended.said);
    for warning in warnings {
        for part in ["the client does not trust the proxy's CA", "https://site.example"] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
    }
}

/// The client: asks for each of `URLS`, and prints the responses.
#[test]
#[ignore = "a program that another test starts"]
#[expect(clippy::disallowed_methods, reason = "it takes its URLs from there")]
fn a_client() {
    let urls = std::env::var("URLS").expect("URLs");
    for url in urls.split(' ') {
        let (scheme, rest) = url.split_once("://").expect("a URL");
        let (host, path) = rest.split_once('/').expect("a path");
        let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
        let response = match scheme {
            "https" => ask(&mut secured(host), &request),
            _ => ask(&mut TcpStream::connect((host, 80)).expect("a connection"), &request),
        };
        println!("\n{}", response.unwrap_or_else(|error| error.to_string()));
    }
}

fn ask(stream: &mut (impl Read + Write), request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

fn secured(host: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("sound settings");
    StreamOwned::new(connection, TcpStream::connect((host, 443)).expect("a connection"))
}

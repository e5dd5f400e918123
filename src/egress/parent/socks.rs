//! CONNECT of SOCKS5 to a parent (RFC 1928), with name and password by RFC 1929.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::credentials::ParentCredentials;
use super::target::ParentTarget;
use crate::types::origin::Host;

const VERSION: u8 = 5;
const PASSWORD_VERSION: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;
const PASSWORD: u8 = 2;

/// Has the parent connect to `target`.
///
/// # Errors
///
/// What was answered instead of a success, in words.
pub async fn open(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    target: ParentTarget<'_>,
    credentials: Option<&ParentCredentials>,
) -> Result<(), String> {
    let request = request(target)?;
    let refused = negotiate(stream, &request, credentials).await;
    match refused.map_err(|error| format!("its answer broke off: {error}"))? {
        None => Ok(()),
        Some(refused) => Err(refused),
    }
}

/// The messages of both sides. `Some`: what was refused.
async fn negotiate(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &[u8],
    credentials: Option<&ParentCredentials>,
) -> io::Result<Option<String>> {
    let offered: &[u8] = match credentials {
        None => &[VERSION, 1, NO_AUTHENTICATION],
        Some(_) => &[VERSION, 2, NO_AUTHENTICATION, PASSWORD],
    };
    send(stream, offered).await?;
    match (read(stream).await?, credentials) {
        ([VERSION, NO_AUTHENTICATION], _) => {}
        ([VERSION, PASSWORD], Some(credentials)) => {
            send(stream, &authentication(credentials)).await?;
            let [_version, status] = read(stream).await?;
            if status != 0 {
                return Ok(Some("it refuses the name and password".to_owned()));
            }
        }
        ([VERSION, _], _) => return Ok(Some("it requires another authentication".to_owned())),
        ([_, _], _) => return Ok(Some("its answer is not SOCKS5".to_owned())),
    }
    send(stream, request).await?;
    let [version, code, _reserved, address_type] = read(stream).await?;
    if version != VERSION {
        return Ok(Some("its answer is not SOCKS5".to_owned()));
    }
    if code != 0 {
        return Ok(Some(format!("it {} ({code})", meaning(code))));
    }
    // The address from which it connects, which says nothing here.
    let length = match address_type {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return Ok(Some("its answer is not SOCKS5".to_owned())),
    };
    stream.read_exact(&mut vec![0; length + 2]).await?;
    Ok(None)
}

/// The CONNECT (RFC 1928 §4).
fn request(ParentTarget { host, port }: ParentTarget<'_>) -> Result<Vec<u8>, String> {
    let mut request = vec![VERSION, 1, 0];
    match host {
        Host::V4(v4) => request.extend([&[1], &v4.to_bits().to_be_bytes()[..]].concat()),
        Host::V6(v6) => request.extend([&[4], &v6.to_bits().to_be_bytes()[..]].concat()),
        Host::Name(name) => {
            let length = u8::try_from(name.len()).map_err(|_| "the name is too long for SOCKS")?;
            request.extend([&[3, length], name.as_bytes()].concat());
        }
    }
    request.extend(port.to_be_bytes());
    Ok(request)
}

/// Name and password (RFC 1929 §2).
fn authentication(ParentCredentials { name, password }: &ParentCredentials) -> Vec<u8> {
    let mut message = vec![PASSWORD_VERSION];
    for part in [name, password] {
        // No longer than 255 bytes: they were read so.
        message.push(u8::try_from(part.len()).unwrap_or(u8::MAX));
        message.extend(part.as_bytes());
    }
    message
}

/// RFC 1928 §6.
const fn meaning(code: u8) -> &'static str {
    match code {
        2 => "does not allow the connection",
        3 => "cannot reach the network",
        4 => "cannot reach the host",
        5 => "was refused the connection",
        6 => "found the packets' time to live exceeded",
        7 => "does not support CONNECT",
        8 => "does not support the type of the address",
        _ => "failed",
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

async fn read<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

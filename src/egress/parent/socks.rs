//! CONNECT of SOCKS5 to a parent (RFC 1928), with name and password by RFC 1929.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::address::{ParentCredentials, ParentTarget};
use crate::egress::error::{Fault, TunnelFailure};
use crate::types::origin::Host;

const VERSION: u8 = 5;
const PASSWORD_VERSION: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;
const PASSWORD: u8 = 2;
const NOT_SOCKS5: &str = "its answer is not SOCKS5";

/// Has the parent connect to `target`.
///
/// # Errors
///
/// What was answered instead of a success.
pub async fn open(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    target: ParentTarget<'_>,
    credentials: Option<&ParentCredentials>,
) -> Result<(), TunnelFailure> {
    let request = request(target).map_err(|reason| TunnelFailure::new(Fault::Target, reason))?;
    let refused = negotiate(stream, &request, credentials).await;
    match refused {
        Ok(None) => Ok(()),
        Ok(Some(refused)) => Err(refused),
        Err(error) => Err(TunnelFailure::unknown(format!("its answer broke off: {error}"))),
    }
}

/// The messages of both sides. `Some`: what was refused.
async fn negotiate(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &[u8],
    credentials: Option<&ParentCredentials>,
) -> io::Result<Option<TunnelFailure>> {
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
                return Ok(refused(Fault::Credentials, "it refuses the name and password"));
            }
        }
        ([VERSION, _], _) => {
            return Ok(refused(Fault::Credentials, "it requires another authentication"));
        }
        ([_, _], _) => return Ok(refused(Fault::Parent, NOT_SOCKS5)),
    }
    send(stream, request).await?;
    let [version, code, _reserved, address_type] = read(stream).await?;
    if version != VERSION {
        return Ok(refused(Fault::Parent, NOT_SOCKS5));
    }
    if code != 0 {
        return Ok(refused(Fault::Target, format!("it {} ({code})", meaning(code))));
    }
    // The address from which it connects, which says nothing here.
    let length = match address_type {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return Ok(refused(Fault::Parent, NOT_SOCKS5)),
    };
    stream.read_exact(&mut vec![0; length + 2]).await?;
    Ok(None)
}

fn refused(fault: Fault, reason: impl Into<String>) -> Option<TunnelFailure> {
    Some(TunnelFailure::new(fault, reason))
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

#[cfg(test)]
mod tests {
    use super::*;

    const SUCCESS: [u8; 10] = [VERSION, 0, 0, 1, 0, 0, 0, 0, 0, 0];

    async fn opened(answer: &[u8], credentials: Option<&str>) -> Result<Vec<u8>, TunnelFailure> {
        let mut stream = tokio::io::join(answer, Vec::new());
        let host = Host::V6("2001:db8::1".parse().unwrap());
        let credentials = credentials.map(|line| line.parse().unwrap());
        let target = ParentTarget { host: &host, port: 443 };
        open(&mut stream, target, credentials.as_ref()).await?;
        Ok(stream.into_inner().1)
    }

    /// What is sent for an IPv6 literal, with name and password and without.
    #[tokio::test]
    async fn an_ipv6_address_is_asked_for_as_sixteen_bytes() {
        let address = [&[5, 1, 0, 4, 0x20, 1, 0x0d, 0xb8][..], &[0; 11], &[1, 1, 187]].concat();
        let sent = opened(&[&[5, 0][..], &SUCCESS].concat(), None).await.unwrap();
        assert_eq!(sent, [&[5, 1, 0][..], &address].concat());
        let answer = [&[5, 2, 1, 0][..], &SUCCESS].concat();
        let sent = opened(&answer, Some("a:bc")).await.unwrap();
        assert_eq!(sent, [&[5, 2, 0, 2, 1, 1, b'a', 2, b'b', b'c'][..], &address].concat());
    }

    #[tokio::test]
    async fn what_is_at_fault_follows_from_the_answer() {
        for (answer, credentials, fault) in [
            (&[5, 2, 1, 1][..], Some("a:b"), Fault::Credentials),
            (&[5, 255], None, Fault::Credentials),
            (&[4, 0], None, Fault::Parent),
            (&[5, 0, 4, 0, 0, 1], None, Fault::Parent),
            (&[5, 0, 5, 0, 0, 2], None, Fault::Parent),
            (&[5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0], None, Fault::Target),
            (&[5, 0, 5, 4, 0, 1, 0, 0, 0, 0, 0, 0], None, Fault::Target),
        ] {
            let failed = opened(answer, credentials).await.unwrap_err();
            assert_eq!(failed.fault, fault, "{answer:?}");
        }
    }

    /// An answer that ends early is the parent's failure, wherever it ends.
    #[tokio::test]
    async fn no_part_of_an_answer_is_a_success() {
        for bound in [&[1, 0, 0, 0, 0][..], &[4; 17], &[3, 2, b'a', b'b']] {
            let whole = [&[5, 0, 5, 0, 0][..], bound, &[0, 80]].concat();
            assert!(opened(&whole, None).await.is_ok());
            for end in 0..whole.len() {
                let failed = opened(&whole[..end], None).await.unwrap_err();
                assert_eq!(failed.fault, Fault::Unknown, "{end} of {whole:?}");
            }
        }
    }
}

//! CONNECT of SOCKS5 to a parent (RFC 1928), with name and password by RFC 1929.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_socks::tcp::Socks5Stream;
use tokio_socks::{Error, TargetAddr};

use super::address::{ParentCredentials, ParentTarget};
use crate::egress::error::{Fault, TunnelFailure};
use crate::types::origin::Host;

/// Has the parent connect to `target`.
///
/// # Errors
///
/// What was answered instead of a success.
pub async fn open(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ParentTarget { host, port }: ParentTarget<'_>,
    credentials: Option<&ParentCredentials>,
) -> Result<(), TunnelFailure> {
    let target = match host {
        Host::V4(v4) => TargetAddr::Ip((*v4, port).into()),
        Host::V6(v6) => TargetAddr::Ip((*v6, port).into()),
        // RFC 1928 §5: the length is one byte.
        Host::Name(name) if name.len() > u8::MAX.into() => {
            return Err(TunnelFailure::new(Fault::Target, "the name is too long for SOCKS"));
        }
        Host::Name(name) => TargetAddr::Domain((&**name).into(), port),
    };
    let opened = match credentials {
        None => Socks5Stream::connect_with_socket(stream, target).await,
        Some(ParentCredentials { name, password }) => {
            Socks5Stream::connect_with_password_and_socket(stream, target, name, password).await
        }
    };
    opened.map(drop).map_err(|error| TunnelFailure::new(fault(&error), reason(&error)))
}

/// What is at fault when it is not connected to the target.
const fn fault(error: &Error) -> Fault {
    match error {
        Error::Io(_) => Fault::Unknown,
        Error::NoAcceptableAuthMethods
        | Error::AuthorizationRequired
        | Error::PasswordAuthFailure(_)
        | Error::InvalidAuthValues(_) => Fault::Credentials,
        Error::InvalidResponseVersion | Error::InvalidReservedByte | Error::UnknownAddressType => {
            Fault::Parent
        }
        _ => Fault::Target,
    }
}

fn reason(error: &Error) -> String {
    match fault(error) {
        Fault::Unknown => format!("its answer broke off: {error}"),
        Fault::Parent => format!("its answer is not SOCKS5: {error}"),
        Fault::Credentials => format!("it requires another name and password: {error}"),
        _ => format!("it does not connect: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUCCESS: [u8; 10] = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0];

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

//! The system's resolver (getaddrinfo(3)): asks it for a name, and classifies its errors.

use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};

use super::hosts_file;
use crate::egress::error::{Error, Failure};
use crate::egress::os_error;

/// Addresses used of one answer.
pub const DNS_ADDRESSES_MAX: usize = 16;

/// The addresses of a name, or why there are none.
pub type LookupResult = Result<Vec<IpAddr>, Error>;

/// Classifies the system's error, and limits the number of addresses.
pub fn classify(name: &str, found: io::Result<Vec<IpAddr>>) -> LookupResult {
    let mut addresses = found.map_err(|error| {
        let failure = if os_error::lookup_is_exhausted(&error) {
            Failure::Exhausted
        } else if is_not_found(&error) {
            Failure::NameNotFound
        } else {
            Failure::Dns
        };
        Error::new(failure, format!("cannot resolve {name}: {error}"))
    })?;
    addresses.truncate(DNS_ADDRESSES_MAX);
    addresses.dedup();
    if addresses.is_empty() {
        return Err(Error::new(Failure::Dns, format!("{name} has no address")));
    }
    Ok(addresses)
}

/// Whether it is `EAI_NONAME` of getaddrinfo(3). The standard library keeps only its message: these
/// are those of glibc and of musl. With any other message the failure is [`Failure::Dns`].
fn is_not_found(error: &io::Error) -> bool {
    let message = error.to_string();
    let known = ["Name or service not known", "Name does not resolve"];
    known.iter().any(|not_found| message.ends_with(not_found))
}

/// Asks the system's resolver. A dot at the end marks the name as absolute: it skips the resolver's
/// search list, so that a public name never becomes a cluster-internal one. Single labels have no
/// such form, and the machine's own hosts file does not know it.
pub fn resolve_with_system(name: &str) -> io::Result<Vec<IpAddr>> {
    let resolve =
        |name: String| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect());
    if !name.contains('.') {
        return resolve(name.to_owned());
    }
    let listed = hosts_file::addresses_of(name);
    if listed.is_empty() { resolve(format!("{name}.")) } else { Ok(listed) }
}

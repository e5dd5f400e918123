//! The virtual address of each name: one of this network that stands for the name. The least
//! recently used name loses its address to a new one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;

use crate::runtime::lock::Lock;

/// The first address of 198.18.0.0/15 (RFC 2544), and of fd00:c0::/96 (RFC 4193).
const FIRST_V4: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const FIRST_V6: u128 = 0xfd00_00c0 << 96;

/// The names with their addresses. An address is 198.18.0.0, or fd00:c0::, plus the number of its
/// name.
#[derive(Debug)]
pub struct VirtualAddresses {
    table: Lock<Table>,
}

#[derive(Debug)]
struct Table {
    numbers: LruCache<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

impl Default for VirtualAddresses {
    fn default() -> Self {
        Self::with_capacity(NonZeroUsize::new(VIRTUAL_ADDRESSES_MAX).expect("a bound above zero"))
    }
}

impl VirtualAddresses {
    fn with_capacity(most: NonZeroUsize) -> Self {
        let table = Table { numbers: LruCache::sparse(most), names: Vec::new() };
        Self { table: Lock::new(table) }
    }

    /// The virtual addresses of `name`, which is in lower case without a dot at the end.
    pub fn addresses_of(&self, name: &str) -> (Ipv4Addr, Ipv6Addr) {
        let number = self.table.lock().number_of(name);
        (Ipv4Addr::from(FIRST_V4 + number), Ipv6Addr::from(FIRST_V6 + u128::from(number)))
    }

    /// The name whose virtual address `address` is.
    pub fn name_of(&self, address: IpAddr) -> Option<Arc<str>> {
        let number = match address.to_canonical() {
            IpAddr::V4(address) => u32::from(address).checked_sub(FIRST_V4),
            IpAddr::V6(address) => {
                u128::from(address).checked_sub(FIRST_V6).and_then(|it| u32::try_from(it).ok())
            }
        };
        let mut table = self.table.lock();
        let name = Arc::clone(table.names.get(usize::try_from(number?).ok()?)?);
        table.numbers.promote(&name);
        Some(name)
    }
}

impl Table {
    fn number_of(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let name = Arc::<str>::from(name);
        let oldest = if self.numbers.len() == self.numbers.cap().get() {
            self.numbers.pop_lru()
        } else {
            None
        };
        let number = match oldest {
            Some((_, number)) => {
                self.names[number as usize] = Arc::clone(&name);
                number
            }
            None => {
                self.names.push(Arc::clone(&name));
                u32::try_from(self.names.len() - 1).expect("less than VIRTUAL_ADDRESSES_MAX")
            }
        };
        self.numbers.put(name, number);
        number
    }
}

/// Names that have an address: the addresses of 198.18.0.0/16, half of the block for benchmarks
/// (RFC 2544, RFC 6890), which is no origin's.
pub const VIRTUAL_ADDRESSES_MAX: usize = 1 << 16;

/// Seconds for which a client may keep an answer. Short, because the address of a name that was not
/// used for long may become that of another.
pub const TTL_SECONDS: u32 = 60;

/// Queries that are answered at one time; of more, those by UDP are dropped, and the client asks
/// again.
pub const QUERIES_MAX: usize = 256;

/// Bytes of a query by UDP that are read: the size that RFC 9715 advises, and more than a query
/// has.
pub const UDP_BYTES_MAX: usize = 1400;

/// How long a connection for queries may be without one (RFC 7766 §6.2.3: of the order of seconds).
pub const TCP_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn name(virtual_addresses: &VirtualAddresses, address: &str) -> Option<String> {
        virtual_addresses.name_of(address.parse().unwrap()).map(|name| name.to_string())
    }

    #[test]
    fn a_virtual_address_stands_for_one_name_in_both_families() {
        let virtual_addresses = VirtualAddresses::default();
        let (v4, v6) = virtual_addresses.addresses_of("a.example");
        assert_eq!((v4.to_string(), v6.to_string()), ("198.18.0.0".into(), "fd00:c0::".into()));
        assert_eq!(virtual_addresses.addresses_of("b.example").0.to_string(), "198.18.0.1");
        assert_eq!(virtual_addresses.addresses_of("a.example"), (v4, v6));
        for (address, expected) in [
            ("198.18.0.1", Some("b.example")),
            ("::ffff:198.18.0.1", Some("b.example")),
            ("fd00:c0::1", Some("b.example")),
            ("198.18.0.2", None),
            ("198.17.255.255", None),
            ("fd00:c0::1:0:1", None),
            ("::1", None),
        ] {
            assert_eq!(name(&virtual_addresses, address).as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn the_least_recently_used_name_loses_its_address() {
        let virtual_addresses = VirtualAddresses::with_capacity(NonZeroUsize::new(2).unwrap());
        virtual_addresses.addresses_of("a");
        virtual_addresses.addresses_of("b");
        assert_eq!(
            name(&virtual_addresses, "198.18.0.0").as_deref(),
            Some("a"),
            "used by a connection"
        );
        virtual_addresses.addresses_of("c");
        assert_eq!(name(&virtual_addresses, "198.18.0.1").as_deref(), Some("c"));
        assert_eq!(name(&virtual_addresses, "198.18.0.0").as_deref(), Some("a"));
        assert_eq!(name(&virtual_addresses, "198.18.0.2"), None);
    }

    #[test]
    fn as_many_names_as_there_are_numbers_have_addresses() {
        let virtual_addresses = VirtualAddresses::default();
        for number in 0..VIRTUAL_ADDRESSES_MAX + 10 {
            virtual_addresses.addresses_of(&number.to_string());
        }
        assert_eq!(name(&virtual_addresses, "198.18.255.255").as_deref(), Some("65535"));
        assert_eq!(name(&virtual_addresses, "198.19.0.0"), None);
        assert_eq!(name(&virtual_addresses, "198.18.0.9").as_deref(), Some("65545"));
    }
}

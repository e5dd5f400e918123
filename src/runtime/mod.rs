//! What every part that does I/O stands on: clock, timers, locks, counters, histograms, files, and the
//! TLS cryptography.

pub mod clock;
pub mod counters;
pub(crate) mod delegate_io;
pub mod files;
pub mod lazy_timer;
pub mod listener;
pub mod lock;

use std::pin::Pin;

use rustls::CipherSuite;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

/// Builds a future directly on the heap. `Box::pin` takes a built one and copies it with its full
/// size, of which little is initialised yet: up to 3 KB for a request's futures.
pub fn box_future<F: Future>(build: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), build()))
}

/// The TLS cryptography, one provider for both sides: what is offered to origins is what clients may
/// choose from. The provider is selected only here, so that no feature flag of a dependency can change
/// it.
///
/// The provider's key exchange groups in their default order: the hybrid with ML-KEM first. Of the
/// cipher suites the one with SHA-256 goes first, as in browsers: a handshake is mostly key
/// derivation, and processors have instructions for SHA-256, but none for SHA-384.
pub fn crypto_provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider
}

/// Bytes of a file that an operator names: settings, certificates, keys, tokens.
pub const NAMED_FILE_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use rustls::NamedGroup;

    use super::*;

    #[test]
    fn the_cheapest_suite_goes_first_and_none_is_lost() {
        let provider = crypto_provider();
        assert_eq!(provider.cipher_suites[0].suite(), CipherSuite::TLS13_AES_128_GCM_SHA256);
        let all = aws_lc_rs::default_provider().cipher_suites;
        assert_eq!(provider.cipher_suites.len(), all.len());
        assert!(all.iter().all(|suite| provider.cipher_suites.contains(suite)));
        assert_eq!(provider.kx_groups[0].name(), NamedGroup::X25519MLKEM768);
    }
}

//! The TLS cryptography, one provider for both sides: what is offered to origins is what clients
//! may choose from. The provider is selected only here, so that no feature flag of a dependency can
//! change it.

use rustls::CipherSuite;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

/// The provider's key exchange groups in their default order: the hybrid with ML-KEM first. Of the
/// cipher suites the one with SHA-256 goes first, as in browsers: a handshake is mostly key
/// derivation, and processors have instructions for SHA-256, but none for SHA-384.
pub fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider
}

#[cfg(test)]
mod tests {
    use rustls::NamedGroup;

    use super::*;

    #[test]
    fn the_cheapest_suite_goes_first_and_none_is_lost() {
        let provider = provider();
        assert_eq!(provider.cipher_suites[0].suite(), CipherSuite::TLS13_AES_128_GCM_SHA256);
        let all = aws_lc_rs::default_provider().cipher_suites;
        assert_eq!(provider.cipher_suites.len(), all.len());
        assert!(all.iter().all(|suite| provider.cipher_suites.contains(suite)));
        assert_eq!(provider.kx_groups[0].name(), NamedGroup::X25519MLKEM768);
    }
}

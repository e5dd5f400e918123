//! Signatures of certificates that were found good before. An issuer's own certificate comes with every
//! chain that it heads, and that of a wildcard with each of its hosts. That a key has signed something
//! stays true, so it is computed once; names, times, purposes and the way to a root are judged anew in
//! each handshake.

use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use rustls::pki_types::{
    AlgorithmIdentifier, FipsStatus, InvalidSignature, SignatureVerificationAlgorithm,
};
use sha2::{Digest, Sha256};

use crate::runtime::crypto_provider::provider;

/// Signatures of certificates remembered as good, over all origins: 32 bytes and their place.
const SIGNATURES_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("it is not zero");

type Algorithm = &'static dyn SignatureVerificationAlgorithm;

/// The algorithms for certificates, with a memory. Those for handshakes need none: a handshake does not
/// come again.
pub fn remembering() -> &'static [Algorithm] {
    static REMEMBERING: LazyLock<Vec<Remembering>> = LazyLock::new(|| {
        let good = Arc::new(Good::new(SIGNATURES_MAX));
        let algorithms = provider().signature_verification_algorithms.all.iter();
        algorithms
            .map(|algorithm| Remembering { algorithm: *algorithm, good: Arc::clone(&good) })
            .collect()
    });
    static ALL: LazyLock<Vec<Algorithm>> =
        LazyLock::new(|| REMEMBERING.iter().map(|algorithm| algorithm as Algorithm).collect());
    &ALL
}

#[derive(Debug)]
struct Remembering {
    algorithm: Algorithm,
    good: Arc<Good>,
}

/// What was found good, by a digest of all that it depends on.
#[derive(Debug)]
struct Good(Mutex<LruCache<[u8; 32], ()>>);

impl Good {
    fn new(max: NonZeroUsize) -> Self {
        Self(Mutex::new(LruCache::sparse(max)))
    }

    fn known(&self) -> MutexGuard<'_, LruCache<[u8; 32], ()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembering {
    /// Each part behind its length, so that no two wholes are alike.
    fn digest(&self, public_key: &[u8], message: &[u8], signature: &[u8]) -> [u8; 32] {
        let (of_key, of_signature) = (self.public_key_alg_id(), self.signature_alg_id());
        let mut digest = Sha256::new();
        for part in [&*of_key, &*of_signature, public_key, message, signature] {
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

impl SignatureVerificationAlgorithm for Remembering {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let digest = self.digest(public_key, message, signature);
        if self.good.known().get(&digest).is_some() {
            return Ok(());
        }
        self.algorithm.verify_signature(public_key, message, signature)?;
        self.good.known().put(digest, ());
        Ok(())
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.signature_alg_id()
    }

    fn fips_status(&self) -> FipsStatus {
        self.algorithm.fips_status()
    }

    fn fips(&self) -> bool {
        self.algorithm.fips()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustls::pki_types::alg_id;

    use super::*;

    /// Takes what is signed with the key itself, and counts how often it was asked.
    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    impl SignatureVerificationAlgorithm for Counting {
        fn verify_signature(
            &self,
            key: &[u8],
            _: &[u8],
            signature: &[u8],
        ) -> Result<(), InvalidSignature> {
            self.0.fetch_add(1, Ordering::Relaxed);
            (key == signature).then_some(()).ok_or(InvalidSignature)
        }

        fn public_key_alg_id(&self) -> AlgorithmIdentifier {
            alg_id::ECDSA_P256
        }

        fn signature_alg_id(&self) -> AlgorithmIdentifier {
            alg_id::ECDSA_SHA256
        }
    }

    /// How often was asked, when these were verified in turn, and which were good.
    fn verify(max: usize, asked: &[(&str, &str, &str)]) -> (usize, Vec<bool>) {
        let counting: &'static Counting = Box::leak(Box::default());
        let good = Arc::new(Good::new(NonZeroUsize::new(max).unwrap()));
        let remembering = Remembering { algorithm: counting, good };
        let found = asked.iter().map(|(key, message, signature)| {
            remembering
                .verify_signature(key.as_bytes(), message.as_bytes(), signature.as_bytes())
                .is_ok()
        });
        let found = found.collect();
        (counting.0.load(Ordering::Relaxed), found)
    }

    #[test]
    fn a_good_signature_is_verified_once() {
        assert_eq!(verify(8, &[("a", "b", "a"); 3]), (1, vec![true; 3]));
    }

    #[test]
    fn a_bad_signature_is_bad_each_time() {
        assert_eq!(verify(8, &[("a", "b", "c"); 3]), (3, vec![false; 3]));
    }

    #[test]
    fn another_key_message_or_signature_is_another() {
        let asked = [
            ("a", "b", "a"),
            ("b", "b", "a"),
            ("a", "c", "a"),
            ("a", "b", "b"),
            ("ab", "a", ""),
            ("", "aba", ""),
        ];
        assert_eq!(verify(8, &asked), (6, vec![true, false, true, false, false, true]));
    }

    #[test]
    fn no_more_are_remembered_than_the_bound() {
        let asked = [("a", "b", "a"), ("a", "c", "a"), ("a", "d", "a"), ("a", "b", "a")];
        assert_eq!(verify(2, &asked), (4, vec![true; 4]));
    }

    #[test]
    fn every_algorithm_of_the_provider_is_there() {
        let names = |all: &[Algorithm]| -> Vec<_> {
            all.iter().map(|it| (it.public_key_alg_id(), it.signature_alg_id())).collect()
        };
        assert_eq!(names(remembering()), names(provider().signature_verification_algorithms.all));
    }
}

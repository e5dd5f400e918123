//! The public half of the key that signs checkpoints, as lines and people write it.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use crate::types::sanitize;

/// The signature type of Ed25519 (c2sp.org/signed-note).
const ED25519_TYPE: u8 = 1;

/// The ID of a key under a name (c2sp.org/signed-note).
pub fn id(name: &str, public: &[u8; 32]) -> [u8; 4] {
    let hash = Sha256::new().chain_update(name).chain_update([b'\n', ED25519_TYPE]);
    let [a, b, c, d, ..]: [u8; 32] = hash.chain_update(public).finalize().into();
    [a, b, c, d]
}

/// The public half of a key, as C2SP signed notes write it: `NAME+ID+KEY`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerifierKey {
    /// An origin, as a rule.
    pub name: String,
    /// Of Ed25519.
    pub public: [u8; 32],
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, public } = self;
        let key = BASE64_STANDARD.encode([&[ED25519_TYPE][..], public].concat());
        write!(f, "{name}+{}+{key}", sanitize::hex(&id(name, public)))
    }
}

impl FromStr for VerifierKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem =
            || "no verifier key NAME+ID+KEY of Ed25519, as courtesy audit key prints it".to_owned();
        let mut parts = text.trim().splitn(3, '+');
        let [Some(name), Some(key_id), Some(key)] = [(); 3].map(|()| parts.next()) else {
            return Err(problem());
        };
        let bytes = BASE64_STANDARD.decode(key).map_err(|_| problem())?;
        let [ED25519_TYPE, public @ ..] = &bytes[..] else { return Err(problem()) };
        let public = public.try_into().map_err(|_| problem())?;
        let is_named = !name.is_empty() && !name.contains(char::is_whitespace);
        if !is_named || sanitize::hex(&id(name, &public)) != key_id {
            return Err(problem());
        }
        Ok(Self { name: name.to_owned(), public })
    }
}

impl Serialize for VerifierKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VerifierKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

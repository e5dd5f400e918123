//! As whom a robots.txt is fetched: the `User-Agent` (RFC 9110 §10.1.5) of the fetch, which depends on
//! the judged product token and the settings alone. No byte of a client's own field goes out with it,
//! so that a client can only ask what each other client with the same token would ask.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use serde::{Deserialize, Serialize};

use crate::types::agent::is_token;

/// This program's own product.
const PRODUCT: &str = "courtesy";

/// Bytes. A token beyond it is fetched for as this program alone: servers have bounds on fields, and an
/// answer to a long field is about the field. The longest token in common use has 30.
const TOKEN_BYTES_MAX: usize = 64;

/// The key by which answers that count for one agent are kept. It has neither our version nor the contact:
/// an upgrade does not make another agent of an agent. Tokens of other letter case are other identities,
/// for a server may tell them apart. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct FetchIdentity(Arc<str>);

impl FetchIdentity {
    /// That of the agent with this product token, or of this program alone where there is none.
    pub fn of_agent(token: Option<&str>) -> Self {
        let fits =
            |token: &&str| token.len() <= TOKEN_BYTES_MAX && is_token(token) && *token != PRODUCT;
        Self(match token.filter(fits) {
            Some(token) => [token, " ", PRODUCT].concat().into(),
            None => PRODUCT.into(),
        })
    }

    /// That of every agent, where the operator has set a text.
    pub fn fixed(text: &str) -> Self {
        Self(text.into())
    }

    /// The product token of the agent that it is of, as far as it tells.
    pub fn agent(&self) -> Option<&str> {
        self.0.strip_suffix(PRODUCT)?.strip_suffix(' ')
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value of the field, with our version and, where there is one, the operator's `contact`.
    pub(super) fn user_agent(&self, fixed: Option<&Self>, contact: Option<&str>) -> HeaderValue {
        let text = match self.0.strip_suffix(PRODUCT) {
            Some(agent) if fixed != Some(self) => {
                let contact = contact.map(|url| format!(" (+{url})")).unwrap_or_default();
                format!("{agent}{PRODUCT}/{}{contact}", env!("CARGO_PKG_VERSION"))
            }
            _ => self.0.to_string(),
        };
        HeaderValue::try_from(text).expect("tokens and settings are printable ASCII")
    }
}

impl From<String> for FetchIdentity {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<FetchIdentity> for String {
    fn from(identity: FetchIdentity) -> Self {
        identity.0.as_ref().into()
    }
}

impl fmt::Display for FetchIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(token: Option<&str>, contact: Option<&str>) -> String {
        let field = FetchIdentity::of_agent(token).user_agent(None, contact);
        field.to_str().unwrap().replace(env!("CARGO_PKG_VERSION"), "VERSION")
    }

    #[test]
    fn the_field_is_the_token_without_version_then_courtesy_and_the_contact() {
        let url = Some("https://example.com/bot");
        for (token, contact, expected) in [
            (Some("ExampleBot"), None, "ExampleBot courtesy/VERSION"),
            (
                Some("archive.org_bot"),
                url,
                "archive.org_bot courtesy/VERSION (+https://example.com/bot)",
            ),
            (None, None, "courtesy/VERSION"),
            (None, url, "courtesy/VERSION (+https://example.com/bot)"),
            (Some("courtesy"), None, "courtesy/VERSION"),
            (Some(""), None, "courtesy/VERSION"),
            (Some("Example Bot"), None, "courtesy/VERSION"),
            (Some("B\u{f6}t"), None, "courtesy/VERSION"),
        ] {
            assert_eq!(sent(token, contact), expected, "{token:?}");
        }
    }

    #[test]
    fn a_token_that_is_too_long_is_fetched_for_as_courtesy_alone() {
        let longest = "a".repeat(TOKEN_BYTES_MAX);
        assert_eq!(FetchIdentity::of_agent(Some(&longest)).as_str(), format!("{longest} courtesy"));
        for length in [TOKEN_BYTES_MAX + 1, 9000] {
            let long = "a".repeat(length);
            assert_eq!(
                FetchIdentity::of_agent(Some(&long)),
                FetchIdentity::of_agent(None),
                "{length}"
            );
        }
    }

    #[test]
    fn a_text_that_was_set_is_sent_as_it_is() {
        for text in ["Fetcher/2 (+https://example.com)", "courtesy", "ExampleBot courtesy"] {
            let fixed = FetchIdentity::fixed(text);
            assert_eq!(fixed.user_agent(Some(&fixed), Some("https://example.com")), text);
        }
    }

    #[test]
    fn letter_case_makes_another_identity() {
        assert_ne!(
            FetchIdentity::of_agent(Some("examplebot")),
            FetchIdentity::of_agent(Some("ExampleBot"))
        );
    }
}

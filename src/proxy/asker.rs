//! Who asked, for what is decided or recorded after the request itself has been answered: a tunnel, an
//! upgraded connection.

use http::{HeaderValue, Method};

use super::account::Account;
use super::gate::Ask;
use crate::clients::Client;

/// An [`Ask`] that owns what it is made of.
#[derive(Debug)]
pub struct Asker {
    client: Client,
    method: Method,
    user_agent: Option<HeaderValue>,
    account: Account,
}

impl Asker {
    pub fn ask(&self) -> Ask<'_> {
        let Self { client, method, user_agent, account } = self;
        Ask { client, method, user_agent: user_agent.as_ref(), account }
    }
}

impl From<Ask<'_>> for Asker {
    fn from(ask: Ask<'_>) -> Self {
        Self {
            client: ask.client.clone(),
            method: ask.method.clone(),
            user_agent: ask.user_agent.cloned(),
            // The line of the access log has been written by then.
            account: ask.account.of_same_trace(),
        }
    }
}

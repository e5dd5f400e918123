//! Other settings for a running proxy. What can fail comes first: settings that cannot be used change
//! nothing. What lives on lives on: the store and the fetches under way, the log, the leaves, the
//! connections of clients.

use std::sync::Arc;

use super::descriptors;
use super::prepare::{self, Prepared, SetupErrors, finish, note};
use super::serving::Server;
use crate::ca;
use crate::config::Settings;

/// What is other than before, beside the settings themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Another CA signs.
    pub ca: bool,
    /// There are other users, or they have other passwords or rights.
    pub users: bool,
    /// The admin listener has another token.
    pub token: bool,
}

impl Changed {
    /// The settings that name files whose content is another.
    pub fn contents(self) -> Vec<&'static str> {
        let all = [
            ("https.ca_cert", self.ca),
            ("clients.users_file", self.users),
            ("admin.token_file", self.token),
        ];
        all.into_iter().filter(|(_, is_other)| *is_other).map(|(key, _)| key).collect()
    }
}

impl Server {
    /// Goes on by `settings`, with the CA in `ca` where that is to be read again, and says what is other
    /// in the files that they name. The next request of every connection obeys them, and what is under
    /// way ends as it began; the bounds of a connection itself (its deadlines, the size of a head) are
    /// those at its beginning. What [`Settings::keep_restart_required`] names is not looked at.
    pub fn reload(
        &self,
        settings: Settings,
        ca: Option<ca::Source>,
    ) -> Result<Changed, SetupErrors> {
        let (components, mut found) = (&self.components, Vec::new());
        let prepared = prepare::read(&settings, &mut found);
        let ca = ca
            .and_then(|source| Some((note(components.leaves.read(&source), &mut found)?, source)));
        let Prepared { tls, clients, secret, .. } = finish(prepared, found)?;
        let terms = components.terms(&settings, tls);
        components.audit.change(settings.audit())?;

        // From here on nothing fails.
        let ca = ca.is_some_and(|(authority, source)| components.leaves.take_up(source, authority));
        components.leaves.resize(settings.leaves_max());
        components.egress.change(terms);
        components.store.change(settings.store(), components.fetcher(&settings));
        if let Some(disk) = components.store.disk() {
            disk.resize(settings.store.max_size, settings.store_pending_max());
        }
        let users = components.admission.change(clients);
        components.admission.memory().change(settings.body_memory());
        let token = components.token.change(secret);
        if settings.clients.max_connections != components.settings().clients.max_connections {
            descriptors::say_if_short(settings.clients.max_connections, self.places);
        }
        components.watch.change(settings.watch.changes, settings.audit.redact_query);
        let gate = components.gate(&settings);
        for worker in &self.workers {
            worker.change(|former| {
                components.proxy(&settings, &gate, Arc::clone(&former.forwarding.egress))
            });
        }
        components.settings.store(Arc::new(settings));
        Ok(Changed { ca, users, token })
    }
}

//! Applies new settings to a running proxy. All that can fail comes first: invalid settings change
//! nothing. The store, its fetches in flight, the log, the leaves and the connections of clients
//! persist.

use std::sync::Arc;

use super::descriptors;
use super::engine::changed_files;
use super::prepare::{self, Prepared, SetupErrors, finish, note};
use super::running::Server;
use crate::ca;
use crate::config::Settings;

/// What a reload changed besides the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Another CA signs.
    pub ca: bool,
    /// The settings that name files whose content has changed.
    pub contents: Vec<&'static str>,
}

impl Server {
    /// Applies `settings`, with the CA in `ca` if that is to be read again, and returns what has
    /// changed in the files that they name. They apply from the next request of every connection;
    /// requests in flight end as they began, and the bounds of a connection itself (its timeouts,
    /// the size of a head) stay. The settings of [`Settings::keep_restart_required`] are ignored.
    pub fn reload(
        &self,
        settings: Settings,
        ca: Option<ca::Source>,
    ) -> Result<Changed, SetupErrors> {
        let (components, mut found) = (&self.components, Vec::new());
        let prepared = prepare::read(&settings, &mut found);
        let ca = ca
            .and_then(|source| Some((note(components.leaves.read(&source), &mut found)?, source)));
        let Prepared { tls, parents, clients, listener_tls, secret, engine, .. } =
            finish(prepared, found)?;
        let own = components.own_with(engine.as_ref());
        let egress_config = components.egress_config(&settings, tls, parents, own);
        components.audit.change(settings.audit())?;

        // From here on nothing fails.
        let ca = ca.is_some_and(|(authority, source)| components.leaves.take_up(source, authority));
        let former = components.listener_tls.swap(Arc::new(listener_tls.clone()));
        let listener_certificate = !listener_tls.is_as(&former);
        components.leaves.resize(settings.leaves_max());
        let egress = components.egress.change(egress_config);
        components.egress.lanes().change(settings.pace());
        let mut contents = Vec::new();
        if let (Some(running), Some(engine)) = (&components.redis, engine) {
            contents = changed_files(&settings.engine, &running.settings(), &engine);
            running.change(engine);
        }
        components.store.change(settings.store(), components.fetcher(&settings));
        if let Some(disk) = components.store.disk() {
            disk.resize(settings.store.max_size, settings.store_pending_max());
        }
        let users = components.admission.change(clients);
        components.admission.memory().change(settings.body_memory());
        let token = components.token.change(secret);
        if settings.clients.max_connections != components.settings().clients.max_connections {
            descriptors::say_if_short(settings.clients.max_connections, self.permits);
        }
        components.watch.change(
            settings.watch.changes,
            settings.audit.pace,
            settings.audit.redact_query,
        );
        let gate = components.gate(&settings);
        for worker in &self.workers {
            worker.change(|former| {
                components.proxy(&settings, &gate, Arc::clone(&former.forwarding.egress))
            });
        }
        let has_other_roots = egress.roots && !settings.tls.extra_roots.is_empty();
        components.settings.store(Arc::new(settings));
        let others = [
            ("https.ca_cert", ca),
            ("listen.tls_cert", listener_certificate),
            ("tls.extra_roots", has_other_roots),
            ("clients.users_file", users),
            ("admin.token_file", token),
            ("egress.parent_credentials_file", egress.parent_credentials),
        ];
        contents.extend(others.into_iter().filter(|(_, is_other)| *is_other).map(|(key, _)| key));
        Ok(Changed { ca, contents })
    }
}

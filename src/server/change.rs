//! Other settings for a running proxy. What can fail comes first: settings that cannot be used change
//! nothing. What lives on lives on: the store and the fetches under way, the log, the leaves, the
//! connections of clients.

use std::sync::Arc;

use super::assemble::{SetupError, clients};
use super::{Server, descriptors};
use crate::ca;
use crate::config::Settings;
use crate::egress::Egress;

impl Server {
    /// Goes on by `settings`, with the CA in `ca` where that is to be read again, and says whether that
    /// is another CA. The next request of every connection obeys them, and what is under way ends as it began; the bounds of a connection
    /// itself (its deadlines, the size of a head) are those at its beginning. What
    /// [`Settings::keep_fixed`] names is not looked at.
    pub fn change(&self, settings: Settings, ca: Option<ca::Source>) -> Result<bool, SetupError> {
        let assembly = &self.assembly;
        let ca = ca.map(|source| Ok((assembly.leaves.read(&source)?, source)));
        let ca = ca.transpose().map_err(SetupError::Ca)?;
        let egress = assembly.other_way_out(&settings)?;
        assembly.audit.change(settings.audit())?;

        // From here on nothing fails.
        let is_other_ca = ca.is_some_and(|(authority, source)| assembly.leaves.take_up(source, authority));
        assembly.leaves.resize(settings.leaves_max());
        assembly.store.change(settings.store(), assembly.fetcher(&settings, &egress));
        if let Some(disk) = assembly.store.disk() {
            disk.resize(settings.store.max_size);
        }
        self.door.change(clients(&settings));
        if settings.clients.max_connections != assembly.settings().clients.max_connections {
            descriptors::say_if_short(settings.clients.max_connections, self.places);
        }
        let gate = assembly.gate(&settings);
        for worker in &self.workers {
            // EGRESS: with terms that can change, `assembly.egress.change(config, policy, tls)` goes
            // before this loop, and each worker keeps the way out of its former proxy, and the pool in it.
            let way_out = Arc::new(Egress::new(Arc::clone(&egress)));
            worker.change(assembly.proxy(&settings, &gate, way_out));
        }
        assembly.settings.store(Arc::new(settings));
        Ok(is_other_ca)
    }
}

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
    /// Goes on by `settings`, with the CA in `ca`, and says whether that is another CA. The next request
    /// of every connection obeys them, and what is under way ends as it began; the bounds of a connection
    /// itself (its deadlines, the size of a head) are those at its beginning. What
    /// [`Settings::keep_fixed`] names is not looked at.
    pub fn change(&self, settings: Settings, ca: ca::Source) -> Result<bool, SetupError> {
        let assembly = &self.assembly;
        let authority = assembly.leaves.read(&ca)?;
        let egress = assembly.other_way_out(&settings)?;
        assembly.audit.change(settings.audit())?;

        // From here on nothing fails.
        let is_other_ca = assembly.leaves.take_up(ca, authority, settings.leaves_max());
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

//! The nodes of a cluster, as it names them itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::hash_slots;
use super::node::Node;
use super::router::{Handle, Map};
use super::settings::Address;
use super::shared::Shared;
use crate::engine::error::{Error, ErrorKind};

/// The nodes are looked up at least so often, and not more often than that.
const REFRESH_MAX: Duration = Duration::from_secs(60);
const REFRESH_MIN: Duration = Duration::from_secs(1);

/// Ranges of slots, each with the address of its primary.
type Ranges = Vec<(u16, u16, Address)>;

/// Keeps the map of the nodes up to date, and runs a task for each.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        match discover(&shared).await {
            Ok(ranges) => apply(&shared, ranges),
            Err(error) => shared.note_down(error),
        }
        sleep(REFRESH_MIN).await;
        tokio::select! {
            () = shared.router.refresh.notified() => {}
            () = sleep(if shared.router.is_up() { REFRESH_MAX } else { Duration::ZERO }) => {}
        }
    }
}

/// The ranges, from the first node that names them.
async fn discover(shared: &Shared) -> Result<Ranges, Error> {
    let config = shared.redis.load_full();
    let map = shared.router.map();
    let known = map.nodes.iter().filter(|node| node.is_up());
    let known = known.filter_map(|node| node.address.as_ref());
    let mut last = ErrorKind::ClusterDown.with("no address is set");
    for address in known.chain(&config.addresses) {
        let ask = async {
            let (connection, _driver, _) =
                Connection::connect(address, &config, &shared.config).await?;
            let mut command = redis::cmd("CLUSTER");
            command.arg("SLOTS");
            let reply = connection.request(command).await?;
            hash_slots::ranges(reply, address)
                .ok_or_else(|| ErrorKind::ClusterDown.with(format!("{address} knows no slots")))
        };
        match timeout(config.connect_timeout, ask).await {
            Ok(Ok(ranges)) => return Ok(ranges),
            Ok(Err(error)) => last = error,
            Err(_) => last = ErrorKind::Timeout.with(format!("{address} does not respond")),
        }
    }
    Err(last)
}

/// Takes up the ranges: nodes that are known go on, others begin, and those without slots end.
fn apply(shared: &Arc<Shared>, ranges: Ranges) {
    let before = shared.router.map();
    let mut map = Map::default();
    for address in hash_slots::nodes(&ranges) {
        map.nodes.push(match before.node_at(&address) {
            Some(node) => Arc::clone(node),
            None => {
                let (handle, inbox) = Handle::new(Some(address));
                tokio::spawn(Node::new(Arc::clone(shared), inbox).run());
                handle
            }
        });
    }
    for (first, last, address) in ranges {
        if let Some(node) = map.node_at(&address).cloned() {
            map.ranges.push((first, last, node));
        }
    }
    let owners = |map: &Map| -> Vec<_> {
        map.ranges.iter().map(|(first, last, node)| (*first, *last, node.address.clone())).collect()
    };
    let is_other = owners(&before) != owners(&map);
    let has_moved = !before.nodes.is_empty() && is_other;
    if is_other {
        shared.router.set(map);
        shared.note_map();
    }
    if has_moved {
        // A replica that takes over may lack the last writes.
        shared.note_possible_loss("slots of the cluster have other nodes");
    }
}

//! The nodes of a cluster, as it names them itself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::node::Node;
use super::router::{self, Handle, Map};
use super::settings::Address;
use super::shared::Shared;
use crate::engine::error::{Error, ErrorKind};

/// The nodes are looked up at least so often, and not more often than that.
const REFRESH_MAX: Duration = Duration::from_secs(60);
const REFRESH_MIN: Duration = Duration::from_secs(1);

/// Ranges of slots, each with the address of its primary.
type Ranges = Vec<(u16, u16, Address)>;

/// Keeps the map of the nodes up to date, and runs a task for each.
pub(super) async fn follow_cluster(shared: Arc<Shared>) {
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
            router::ranges(reply, address)
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
    for address in router::nodes(&ranges) {
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

/// Starts the thread. It ends when `shutdown` is cancelled.
pub(super) fn start_thread(shared: Arc<Shared>, shutdown: CancellationToken) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        runtime.block_on(async {
            tokio::select! {
                () = run(shared) => {}
                () = shutdown.cancelled() => {}
            }
        });
        // A lookup of a host may still run in a thread of its own.
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name("engine".to_owned()).spawn(run)?;
    Ok(())
}

async fn run(shared: Arc<Shared>) {
    let heartbeats = heartbeats(&shared);
    if shared.redis.load().is_cluster {
        tokio::join!(follow_cluster(Arc::clone(&shared)), heartbeats);
    } else {
        let (handle, inbox) = Handle::new(None);
        shared.router.set(Map::of_one(handle));
        tokio::join!(Node::new(Arc::clone(&shared), inbox).run(), heartbeats);
    }
}

/// Sends heartbeats for as long as the thread lives: at their interval, and when a node was
/// reached. Where a test gives the time, it also says when there is a heartbeat. A command that
/// only reads sends none.
async fn heartbeats(shared: &Shared) {
    if shared.redis.load().clock.is_some() || !shared.config.is_member {
        return;
    }
    loop {
        let interval = shared.members.lock().heartbeat_interval();
        tokio::select! {
            () = sleep(interval) => {}
            () = shared.heartbeat.notified() => {}
        }
        let Ok(reply) = shared.send(shared.heartbeat_call()) else { continue };
        match reply.await {
            Ok(Ok(reply)) => drop(shared.note_heartbeat(reply)),
            Ok(Err(error)) => shared.note_error(&error),
            Err(_) => {}
        }
    }
}

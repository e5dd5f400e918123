//! The nodes of a cluster, as it names them itself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::node::{Node, first_response};
use super::push;
use super::router::{self, Handle, Map, Ranges};
use super::shared::Shared;
use crate::engine::error::{Error, ErrorKind};

/// The nodes are looked up at least so often, and not more often than that.
const REFRESH_MAX: Duration = Duration::from_secs(60);
const REFRESH_MIN: Duration = Duration::from_secs(1);

/// Keeps the map of the nodes up to date, and runs a task for each. Returns when the settings name
/// other servers, or the servers are of no cluster any more.
async fn follow_cluster(shared: &Arc<Shared>) {
    let settings = shared.redis.load_full();
    let mut changes = shared.changes.subscribe();
    shared.router.set(Map::default());
    while shared.redis.load().has_servers_of(&settings) {
        let mut is_cluster = true;
        match discover(shared).await {
            Ok(ranges) => apply(shared, ranges),
            Err(error) => {
                is_cluster = error.kind != ErrorKind::Settings;
                shared.note_down(error);
            }
        }
        sleep(REFRESH_MIN).await;
        if !is_cluster {
            return;
        }
        tokio::select! {
            () = shared.router.refresh.notified() => {}
            _ = changes.changed() => {}
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
    let (config, own) = (&config, &shared.config);
    first_response(known.chain(&config.addresses), config.connect_timeout(), |address| async move {
        let (connection, _driver, _) = Connection::connect(&address, config, own).await?;
        connection.slots(&address).await
    })
    .await
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
    let serve = async {
        loop {
            let (handle, inbox) = Handle::new(None);
            shared.router.set(Map::of_one(handle));
            shared.note_map();
            // It ends where the server turns out to be one of several primaries of a cluster.
            Node::new(Arc::clone(&shared), inbox).run().await;
            follow_cluster(&shared).await;
        }
    };
    tokio::join!(serve, heartbeats(&shared), push::follow(&shared));
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
        if !shared.is_member() {
            return;
        }
        let (call, sent) = shared.heartbeat_call();
        let Ok(reply) = shared.send(call) else { continue };
        match reply.await {
            Ok(Ok(reply)) => drop(shared.note_heartbeat(reply, sent)),
            Ok(Err(error)) => {
                shared.note_heartbeat_error(&error);
                shared.note_error(&error);
            }
            Err(_) => {}
        }
    }
}

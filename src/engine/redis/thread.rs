//! The thread of an engine: its tasks run beside those of the workers.

use std::io;
use std::sync::Arc;

use tokio::runtime::Builder;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::cluster;
use super::node::Node;
use super::router::{Handle, Map};
use super::shared::Shared;

/// Starts the thread. It ends when `shutdown` is cancelled.
pub(super) fn start(shared: Arc<Shared>, shutdown: CancellationToken) -> io::Result<()> {
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
        tokio::join!(cluster::run(Arc::clone(&shared)), heartbeats);
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

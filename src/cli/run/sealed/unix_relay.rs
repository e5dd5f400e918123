//! Unix sockets outside that the command may reach (`--reach PATH`). In the place of each the command
//! sees a socket of the proxy, which relays bytes and no descriptors: none of another network gets in.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::UnixStream;
use tracing::{info, warn};

use super::mounts::Mount;
use super::reach::Relay;
use super::relay_record::{NO_ADDRESS, Service};

/// Serves a socket in `dir` for each of `paths`, in tasks of the current runtime; where each is to be
/// mounted.
///
/// # Errors
///
/// A path does not exist, or its socket cannot be made.
pub fn start(relay: &Arc<Relay>, paths: &[PathBuf], dir: &Path) -> io::Result<Vec<Mount>> {
    let serve = |(number, path): (usize, &PathBuf)| {
        let named = |error| io::Error::other(format!("--reach {}: {error}", path.display()));
        let target = path.canonicalize().map_err(named)?;
        let source = dir.join(format!("reach-{number}"));
        let listener = UnixListener::bind(&source).map_err(named)?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        tokio::spawn(serve(Arc::clone(relay), listener, target.clone()));
        Ok(Mount { source, target })
    };
    paths.iter().enumerate().map(serve).collect()
}

async fn serve(relay: Arc<Relay>, listener: tokio::net::UnixListener, path: PathBuf) {
    let path: Arc<Path> = path.into();
    loop {
        let Some(permit) = relay.permit().await else { return };
        let Ok((client, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let (relay, path) = (Arc::clone(&relay), Arc::clone(&path));
        tokio::spawn(async move {
            relay_to(&relay, client, &path).await;
            drop(permit);
        });
    }
}

async fn relay_to(relay: &Relay, mut client: UnixStream, path: &Path) {
    let shown = path.display().to_string();
    match UnixStream::connect(path).await {
        Ok(mut server) => {
            if !relay.count(&Service::Unix(&shown), NO_ADDRESS).await {
                return;
            }
            info!("relayed to {shown} (--reach)");
            // An error is the end of one side.
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
        Err(error) => warn!("{shown} is not reached (--reach): {error}"),
    }
}

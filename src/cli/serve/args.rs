//! The arguments of `courtesy serve`.

use clap::Args;

use crate::cli::flags::{ConfigFlags, ServeFlags};
use crate::config::{InvalidSettings, Loaded, Override};

/// The arguments of `courtesy serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy serve                                    listen on 127.0.0.1:3128
  courtesy serve --listen 127.0.0.1:0 --workers 1   any free port, one thread
  http_proxy=http://127.0.0.1:3128 wget -r http://example.com/
  courtesy health                                   is it ready? (--admin)
  curl http://127.0.0.1:3129/metrics                its metrics; /readyz, /config and more are there

Denied requests are recorded in audit/denials.jsonl under the state directory. TERM or INT lets
requests under way finish (limits.drain_timeout); a second one ends at once.

HUP, or a change of the configuration file, of https.ca_cert and ca_key or of tls.extra_roots,
applies the new settings, from the next request on; invalid ones are refused as a whole, and the log
names them. state_dir, workers, listen, admin.token_file, audit.dir, store.enabled and log.format
need a restart. HUP alone takes up a CA that `courtesy ca rotate` has made, and opens denials.jsonl
again, as logrotate needs it; logrotate must keep all it rotates (rotate -1), because a file that it
removes is missing from the chain: audit.retain is for that.

Sockets of systemd (Sockets=) are served instead of listen.proxy, and the one with
FileDescriptorName=admin instead of listen.admin: a restart refuses no connection. With
Type=notify systemd is notified when clients are served, and with WatchdogSec= that all
threads still run.

For HTTPS, clients have to trust the CA that is made at first start: see `courtesy ca install-help`.")]
pub struct ServeArgs {
    #[command(flatten)]
    config: ConfigFlags,
    #[command(flatten)]
    serve: ServeFlags,
}

impl ServeArgs {
    /// Loads the settings; `overrides` go before the flags.
    pub fn load(&self, overrides: &[Override]) -> Result<Loaded, InvalidSettings> {
        self.config.load_with(Some(&self.serve), overrides)
    }
}

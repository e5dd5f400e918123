//! Flags that several subcommands share. Each is another way to write a setting: it becomes an
//! override, and the configuration checks it like any other value.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::environment;
use super::output::quoted;
use crate::config::{
    AdminAddress, Change, InvalidSettings, LoadReport, Loaded, Location, Override, load,
    load_and_report, locate, parse_proxy,
};
use crate::egress::{METADATA_BLOCKS, PRIVATE_BLOCKS};

/// The flags of commands that only read the state of a proxy.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Configuration")]
pub struct StateFlags {
    /// Read the settings from FILE [default: $COURTESY_CONFIG, else /etc/courtesy/config.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Keep what must survive a restart in DIR [default: $STATE_DIRECTORY, else the XDG state
    /// directory]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<String>,
}

/// The flags of commands that make requests.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Configuration")]
pub struct ConfigFlags {
    #[command(flatten)]
    pub state: StateFlags,
    /// Let private and loopback addresses be reached (adds them to egress.allow)
    #[arg(long)]
    pub allow_private: bool,
    /// Trust the certificate authorities in FILE, too (PEM; may be repeated)
    #[arg(long, value_name = "FILE")]
    pub extra_root: Vec<String>,
    /// Intercept with the certificate authority in FILE instead of one made here (PEM)
    #[arg(long, value_name = "FILE")]
    pub ca_cert: Option<String>,
    /// Its key (PEM; a file that only its owner can read)
    #[arg(long, value_name = "FILE")]
    pub ca_key: Option<String>,
}

/// The flags of a listening proxy.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Serving")]
pub struct ServeFlags {
    /// Listen on ADDR instead of listen.proxy, as in 127.0.0.1:3128 or 3128 (may be repeated; port
    /// 0: any)
    #[arg(long, value_name = "ADDR", value_parser = parse_proxy)]
    pub listen: Vec<SocketAddr>,
    /// Tell health and metrics at ADDR instead of listen.admin (port 0: any), or "off"
    #[arg(long, value_name = "ADDR|off")]
    pub admin: Option<AdminAddress>,
    /// Serve with N threads [default: one per core]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Let every client that can reach the proxy use it
    #[arg(long)]
    pub open: bool,
}

impl StateFlags {
    /// The given flags, for another command: each after a blank.
    pub fn again(&self) -> String {
        let config =
            self.config.as_ref().map(|file| ("--config", file.to_string_lossy().into_owned()));
        let state_dir = self.state_dir.as_ref().map(|dir| ("--state-dir", dir.clone()));
        config
            .into_iter()
            .chain(state_dir)
            .map(|(flag, value)| format!(" {flag} {}", quoted(&value)))
            .collect()
    }

    /// Loads the settings with these flags.
    pub fn load(&self) -> Result<Loaded, InvalidSettings> {
        self.load_with(&[])
    }

    /// The same, with what goes before these flags.
    pub fn load_with(&self, more: &[Override]) -> Result<Loaded, InvalidSettings> {
        let overrides = [&self.overrides(), more].concat();
        load(self.config.as_deref(), environment::variables(), &overrides)
    }

    /// As [`Self::load_with`], continuing after problems.
    fn load_and_report_with(&self, more: &[Override]) -> LoadReport {
        let overrides = [&self.overrides(), more].concat();
        load_and_report(self.config.as_deref(), environment::variables(), &overrides)
    }

    /// Where a proxy by these settings would be found, as far as they can be read.
    pub fn locate(&self) -> Location {
        locate(self.config.as_deref(), environment::variables(), self.state_dir.as_deref())
    }

    fn overrides(&self) -> Vec<Override> {
        self.state_dir.iter().map(|dir| set("state_dir", dir, "--state-dir")).collect()
    }
}

impl ConfigFlags {
    /// Loads the settings with these flags, and those of `serve` where there are any.
    pub fn load(&self, serve: Option<&ServeFlags>) -> Result<Loaded, InvalidSettings> {
        self.load_with(serve, &[])
    }

    /// The same, with what goes before every flag.
    pub fn load_with(
        &self,
        serve: Option<&ServeFlags>,
        more: &[Override],
    ) -> Result<Loaded, InvalidSettings> {
        let overrides = [&self.overrides_of(serve), more].concat();
        self.state.load_with(&overrides)
    }

    /// As [`Self::load`], continuing after problems.
    pub fn load_and_report(&self, serve: &ServeFlags) -> LoadReport {
        self.state.load_and_report_with(&self.overrides_of(Some(serve)))
    }

    fn overrides_of(&self, serve: Option<&ServeFlags>) -> Vec<Override> {
        let mut overrides = self.overrides();
        overrides.extend(serve.map(ServeFlags::overrides).unwrap_or_default());
        overrides
    }

    fn overrides(&self) -> Vec<Override> {
        let mut overrides = Vec::new();
        if self.allow_private {
            let blocks = PRIVATE_BLOCKS.map(str::to_owned).to_vec();
            overrides.push(Override {
                key: "egress.allow",
                change: Change::Add(blocks),
                flag: "--allow-private",
            });
            let metadata = METADATA_BLOCKS.map(str::to_owned).to_vec();
            overrides.push(Override {
                key: "egress.deny",
                change: Change::Add(metadata),
                flag: "--allow-private",
            });
        }
        if !self.extra_root.is_empty() {
            let change = Change::Add(self.extra_root.clone());
            overrides.push(Override { key: "tls.extra_roots", change, flag: "--extra-root" });
        }
        if let Some(file) = &self.ca_cert {
            overrides.push(set("https.ca_cert", file, "--ca-cert"));
        }
        if let Some(file) = &self.ca_key {
            overrides.push(set("https.ca_key", file, "--ca-key"));
        }
        overrides
    }
}

impl ServeFlags {
    fn overrides(&self) -> Vec<Override> {
        let mut overrides = Vec::new();
        if !self.listen.is_empty() {
            let addresses = self.listen.iter().map(ToString::to_string).collect();
            overrides.push(Override {
                key: "listen.proxy",
                change: Change::SetList(addresses),
                flag: "--listen",
            });
        }
        if let Some(admin) = self.admin {
            overrides.push(set("listen.admin", &admin.to_string(), "--admin"));
        }
        if let Some(workers) = self.workers {
            overrides.push(set("workers", &workers.to_string(), "--workers"));
        }
        if self.open {
            overrides.push(set("clients.open", "true", "--open"));
        }
        overrides
    }
}

fn set(key: &'static str, text: &str, flag: &'static str) -> Override {
    Override { key, change: Change::Set(text.to_owned()), flag }
}

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
need a restart. HUP alone takes up a CA that `courtesy ca rotate` has made. The log of denials is
rotated by the proxy itself (audit.rotate_size, audit.retain), and by nothing else.

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

//! Flags that several subcommands share. Each is another way to write a setting: it becomes an
//! override, and the configuration checks it like any other value.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::environment;
use super::output::{KnownWords, quoted};
use crate::config::{
    AdminAddress, Change, Diagnostic, InvalidSettings, LoadReport, Loaded, Location, Override,
    ProfileName, SET_FLAG, load, load_and_report, locate, parse_proxy,
};
use crate::egress::{METADATA_BLOCKS, PRIVATE_BLOCKS};

/// The flags of commands that only read the state of a proxy.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Configuration")]
pub struct StateFlags {
    /// Read the settings from FILE [default: $COURTESY_CONFIG, else courtesy/config.toml in
    /// $XDG_CONFIG_HOME or ~/.config, else /etc/courtesy/config.toml]
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
    /// Change a setting, as in --set pace.delay=2s; VALUE is written as in the file, and a text needs no
    /// quotes (may be repeated)
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
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

/// The flags for what people change most, each a spelling of `--set`.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Configuration")]
pub struct PolicyFlags {
    /// Deny nothing and hold nothing, only record what would be (robots.mode = "observe")
    #[arg(long)]
    pub observe: bool,
    /// Leave at least TIME between two requests to an origin, as in 2s (pace.delay)
    #[arg(long, value_name = "TIME")]
    pub delay: Option<String>,
    /// Let a request wait for its turn for at most TIME, as in 5m (pace.max_wait)
    #[arg(long, value_name = "TIME")]
    pub max_wait: Option<String>,
    /// Read robots.txt in this dialect (robots.profile)
    #[arg(long, value_name = "NAME", value_parser = KnownWords::new(&[ProfileName::WORDS], ProfileName::from_str))]
    pub profile: Option<ProfileName>,
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
    #[command(flatten)]
    pub policy: PolicyFlags,
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

    /// The same for a command that keeps nothing, or can do without: where there is no home, its state
    /// directory is empty.
    pub fn load_anywhere(&self, more: &[Override]) -> Result<Loaded, InvalidSettings> {
        let overrides = [&self.overrides(), more].concat();
        let mut report = self.state.load_and_report_with(&overrides);
        let settings = report.loaded.as_ref().map(|loaded| &loaded.settings);
        if settings.is_some_and(|settings| settings.state_dir.as_os_str().is_empty()) {
            // One that is set to nothing has a place, and stays.
            let is_homeless = |it: &Diagnostic| it.key == "state_dir" && it.place.is_none();
            report.diagnostics.retain(|diagnostic| !is_homeless(diagnostic));
        }
        report.into_result()
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
        // First, so that a flag of its own goes before the same setting by --set.
        let assigned = self
            .set
            .iter()
            .map(|(key, value)| changed(key.clone(), Change::Assign(value.clone()), SET_FLAG));
        let mut overrides: Vec<_> = assigned.collect();
        if self.allow_private {
            let add =
                |blocks: &[&str]| Change::Add(blocks.iter().map(ToString::to_string).collect());
            overrides.push(changed("egress.allow", add(&PRIVATE_BLOCKS), "--allow-private"));
            overrides.push(changed("egress.deny", add(&METADATA_BLOCKS), "--allow-private"));
        }
        if !self.extra_root.is_empty() {
            let change = Change::Add(self.extra_root.clone());
            overrides.push(changed("tls.extra_roots", change, "--extra-root"));
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
    /// The settings that they change.
    pub fn overrides(&self) -> Vec<Override> {
        let mut overrides = Vec::new();
        if !self.listen.is_empty() {
            let addresses = self.listen.iter().map(ToString::to_string).collect();
            overrides.push(changed("listen.proxy", Change::SetList(addresses), "--listen"));
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
        overrides.extend(self.policy.overrides());
        overrides
    }
}

impl PolicyFlags {
    /// The settings that they change.
    pub fn overrides(&self) -> Vec<Override> {
        let mode = self.observe.then_some("observe");
        let changes = [
            ("robots.mode", mode, "--observe"),
            ("pace.delay", self.delay.as_deref(), "--delay"),
            ("pace.max_wait", self.max_wait.as_deref(), "--max-wait"),
            ("robots.profile", self.profile.map(ProfileName::as_str), "--profile"),
        ];
        changes.into_iter().filter_map(|(key, text, flag)| Some(set(key, text?, flag))).collect()
    }
}

fn set(key: &'static str, text: &str, flag: &'static str) -> Override {
    changed(key, Change::Set(text.to_owned()), flag)
}

fn changed(key: impl Into<Cow<'static, str>>, change: Change, flag: &'static str) -> Override {
    Override { key: key.into(), change, flag }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
    match parts {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a setting and its value are wanted, as in pace.delay=2s".into()),
    }
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
requests under way finish (limits.drain_delay, limits.drain_timeout); a second one ends at once.

`courtesy reload`, HUP, or a change of the configuration file or of a file that it names applies
the new settings, from the next request on; invalid ones are refused as a whole, and the log names
them. state_dir, workers, the addresses of listen, all of admin, audit.dir, store.enabled,
log.format, engine.name, prefix and required, and whether there is an engine, need a restart. A CA
that `courtesy ca rotate` has made is taken up by `courtesy reload` or HUP alone. The log of
denials is rotated by the proxy itself (audit.rotate_size, audit.retain), and by nothing else.

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
    /// The flags that say where the settings are.
    pub fn state(&self) -> &StateFlags {
        &self.config.state
    }

    /// Loads the settings; `overrides` go before the flags.
    pub fn load(&self, overrides: &[Override]) -> Result<Loaded, InvalidSettings> {
        self.config.load_with(Some(&self.serve), overrides)
    }
}

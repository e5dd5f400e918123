//! The schema of the settings. `config/courtesy.toml` documents each for operators; a test keeps
//! the two equal. Values are parsed types, which need not be checked again. Each section has its
//! settings and their defaults in one file.

mod audit;
mod clients;
mod egress;
mod listen;
mod pace;
mod robots;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::rules::{Exemption, OriginRule};
use super::units;
use super::values::{print_date, print_origin_pattern};
use crate::types::timestamp::Timestamp;
pub use audit::{Audit, Store};
pub use clients::{Clients, Limits};
pub use egress::{Egress, Engine};
pub use listen::{Admin, Https, Listen, Log, Tls};
pub use pace::Pace;
pub(super) use robots::apply_knobs;
pub use robots::{Agents, Deny, Robots};

/// All settings, effective and checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The state directory. Filled in by loading when not set.
    pub state_dir: PathBuf,
    /// Threads that serve requests; absent: one per processor core.
    #[serde(with = "units::count_option")]
    pub workers: Option<usize>,
    pub listen: Listen,
    pub admin: Admin,
    pub clients: Clients,
    pub agents: Agents,
    pub robots: Robots,
    pub origins: Vec<OriginRule>,
    pub exemptions: Vec<Exemption>,
    pub pace: Pace,
    pub engine: Engine,
    pub deny: Deny,
    pub https: Https,
    pub tls: Tls,
    pub egress: Egress,
    pub audit: Audit,
    pub store: Store,
    pub limits: Limits,
    pub log: Log,
    /// Whether this is the proxy of `courtesy run`, whose flags the remedies then name. Not a
    /// setting of files.
    #[serde(skip)]
    pub under_run: bool,
    /// Where what the processes of the machine share is, if not in the state directory: that of a run may
    /// be a temporary one. Not a setting of files.
    #[serde(skip)]
    pub shared_dir: Option<PathBuf>,
    /// This user's directory for what lasts until the machine is shut down (`$XDG_RUNTIME_DIR`). Not a
    /// setting of files.
    #[serde(skip)]
    pub runtime_dir: Option<PathBuf>,
}

impl Settings {
    /// The files that settings name and a reload reads again, by the names of the settings: a change
    /// of one is a reload. The CA is not among them: [`crate::ca::Source`] says where it is.
    pub fn named_files(&self) -> Vec<(&'static str, &Path)> {
        let Self { listen, admin, clients, engine, egress, tls, .. } = self;
        let single = [
            ("listen.tls_cert", &listen.tls_cert),
            ("listen.tls_key", &listen.tls_key),
            ("admin.token_file", &admin.token_file),
            ("admin.viewer_token_file", &admin.viewer_token_file),
            ("clients.users_file", &clients.users_file),
            ("engine.url_file", &engine.url_file),
            ("engine.password_file", &engine.password_file),
            ("engine.ca", &engine.ca),
            ("engine.cert", &engine.cert),
            ("engine.key", &engine.key),
            ("engine.seal_key_file", &engine.seal_key_file),
            ("egress.parent_credentials_file", &egress.parent_credentials_file),
        ];
        let single = single.into_iter().filter_map(|(name, file)| Some((name, file.as_deref()?)));
        single.chain(tls.extra_roots.iter().map(|file| ("tls.extra_roots", &**file))).collect()
    }
}

impl Settings {
    /// Valid settings that deserve a warning at start.
    pub fn notices(&self, now: Timestamp) -> Vec<String> {
        let expired = self.exemptions.iter().filter(|exemption| exemption.until <= now);
        let expired = expired.map(|exemption| {
            format!(
                "the exemption for {} by {} ended at {} and no longer applies",
                print_origin_pattern(&exemption.origin),
                exemption.by,
                print_date(&exemption.until)
            )
        });
        expired.collect()
    }
}

// The settings that need a restart: sockets, threads and files that are open for the life of the
// process.

impl Settings {
    /// Resets the settings that need a restart to those of `running`; returns their names.
    pub fn keep_restart_required(&mut self, running: &Self) -> Vec<&'static str> {
        let mut kept = Vec::new();
        let mut keep = |key, is_other: bool| {
            if is_other {
                kept.push(key);
            }
        };
        keep("state_dir", replace(&mut self.state_dir, &running.state_dir));
        keep("workers", replace(&mut self.workers, &running.workers));
        keep("listen.proxy", replace(&mut self.listen.proxy, &running.listen.proxy));
        keep("listen.transparent", {
            replace(&mut self.listen.transparent, &running.listen.transparent)
        });
        keep("listen.admin", replace(&mut self.listen.admin, &running.listen.admin));
        keep("admin.token_file", replace(&mut self.admin.token_file, &running.admin.token_file));
        keep("admin.viewer_token_file", {
            replace(&mut self.admin.viewer_token_file, &running.admin.viewer_token_file)
        });
        keep("admin.console", replace(&mut self.admin.console, &running.admin.console));
        keep("admin.origins", replace(&mut self.admin.origins, &running.admin.origins));
        keep("audit.dir", replace(&mut self.audit.dir, &running.audit.dir));
        keep("store.enabled", replace(&mut self.store.enabled, &running.store.enabled));
        if self.engine.is_set() != running.engine.is_set() {
            keep("engine.url", replace(&mut self.engine.url, &running.engine.url));
            keep("engine.url_file", replace(&mut self.engine.url_file, &running.engine.url_file));
        }
        keep("engine.prefix", replace(&mut self.engine.prefix, &running.engine.prefix));
        keep("engine.name", replace(&mut self.engine.name, &running.engine.name));
        keep("engine.required", replace(&mut self.engine.required, &running.engine.required));
        keep("log.format", replace(&mut self.log.format, &running.log.format));
        kept
    }
}

/// Whether the value changed.
fn replace<T: Clone + PartialEq>(place: &mut T, value: &T) -> bool {
    let is_other = place != value;
    place.clone_from(value);
    is_other
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::config::{AdminAddress, ConsoleAccess, LogFormat, Mode};

    #[test]
    fn what_needs_a_restart_stays_and_is_named_and_the_rest_applies() {
        let running = Settings { state_dir: "/var/lib/courtesy".into(), ..Settings::default() };
        let mut other = running.clone();
        other.robots.mode = Mode::Observe;
        assert_eq!(other.keep_restart_required(&running), [""; 0]);

        other.state_dir = "/elsewhere".into();
        other.workers = Some(3);
        other.listen.proxy = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))];
        other.listen.admin = AdminAddress::Off;
        other.admin.token_file = Some("/token".into());
        other.admin.viewer_token_file = Some("/viewer".into());
        other.admin.console = ConsoleAccess::Off;
        other.admin.origins = vec!["https://courtesy.example".parse().unwrap()];
        other.audit.dir = Some("/log".into());
        other.store.enabled = false;
        other.engine.url_file = Some("/engine.url".into());
        other.log.format = LogFormat::Json;
        let changed = running.differences(&other);
        let kept = other.keep_restart_required(&running);
        let apart_from_mode: Vec<_> = changed.iter().filter(|key| *key != "robots.mode").collect();
        assert_eq!(kept.len(), 12, "{kept:?}");
        assert!(
            kept.iter().all(|key| apart_from_mode.iter().any(|it| it == key)),
            "{apart_from_mode:?}"
        );
        assert_eq!(running.differences(&other), ["robots.mode"]);
    }
}

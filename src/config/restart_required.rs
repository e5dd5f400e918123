//! The settings that need a restart: sockets, threads and files that are open for the life of the
//! process.

use super::settings::Settings;

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
        keep("audit.dir", replace(&mut self.audit.dir, &running.audit.dir));
        keep("store.enabled", replace(&mut self.store.enabled, &running.store.enabled));
        keep("engine.prefix", replace(&mut self.engine.prefix, &running.engine.prefix));
        keep("engine.name", replace(&mut self.engine.name, &running.engine.name));
        keep("engine.cluster", replace(&mut self.engine.cluster, &running.engine.cluster));
        keep("engine.share_policies", {
            replace(&mut self.engine.share_policies, &running.engine.share_policies)
        });
        keep("engine.share_pace", {
            replace(&mut self.engine.share_pace, &running.engine.share_pace)
        });
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
    use crate::config::{AdminAddress, LogFormat, Mode};

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
        other.audit.dir = Some("/log".into());
        other.store.enabled = false;
        other.log.format = LogFormat::Json;
        let changed = running.differences(&other);
        let kept = other.keep_restart_required(&running);
        let apart_from_mode: Vec<_> = changed.iter().filter(|key| *key != "robots.mode").collect();
        assert_eq!(kept.len(), 8, "{kept:?}");
        assert!(
            kept.iter().all(|key| apart_from_mode.iter().any(|it| it == key)),
            "{apart_from_mode:?}"
        );
        assert_eq!(running.differences(&other), ["robots.mode"]);
    }
}

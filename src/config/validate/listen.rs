//! Checks the addresses to listen on.

use std::collections::HashSet;

use crate::config::diagnostics::ReportFn;
use crate::config::settings::Settings;

pub(super) fn check_listen(settings: &Settings, report: ReportFn<'_>) {
    const KEY: &str = "listen.proxy";
    let addresses = &settings.listen.proxy;
    if addresses.is_empty() {
        report(
            KEY,
            "nothing to listen on".into(),
            Some("give at least one address and port".into()),
        );
    }
    let mut seen = HashSet::new();
    for address in addresses {
        if !seen.insert(address) && address.port() != 0 {
            report(KEY, format!("{address} is given twice"), None);
        }
    }
    let beyond = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback());
    if let Some(address) = beyond
        && settings.clients.allow.is_empty()
        && settings.clients.users_file.is_none()
        && !settings.clients.open
    {
        let hint = "say who may use the proxy with clients.allow = [\"10.0.0.0/8\"] or clients.users_file, or \
                    give --open";
        report(KEY, format!("{address} can be reached from other machines"), Some(hint.into()));
    }
}

/// A transparent listener asks for no password: the address of the client has to be permitted.
pub(super) fn check_transparent(settings: &Settings, report: ReportFn<'_>) {
    const KEY: &str = "listen.transparent";
    let mut seen: HashSet<_> = settings.listen.proxy.iter().collect();
    for address in &settings.listen.transparent {
        if !seen.insert(address) && address.port() != 0 {
            report(KEY, format!("{address} is given twice, or is in listen.proxy"), None);
        }
        if address.port() == 0 {
            report(KEY, format!("{address} has no port that rules can redirect to"), None);
        }
        let is_open = settings.clients.open || !settings.clients.allow.is_empty();
        if !address.ip().to_canonical().is_loopback() && !is_open {
            let hint =
                "say who may use it with clients.allow = [\"10.0.0.0/8\"]; it asks for no password";
            report(KEY, format!("{address} can be reached from other machines"), Some(hint.into()));
        }
    }
}

pub(super) fn check_ports(settings: &Settings, report: ReportFn<'_>) {
    for address in settings.listen.proxy.iter().filter(|address| address.port() == 0) {
        let hint = "--listen takes 0 for any free port";
        report(
            "listen.proxy",
            format!("{address} has no port that clients can be given"),
            Some(hint.into()),
        );
    }
}

/// An admin listener that other machines can reach needs a token.
pub(super) fn check_admin(settings: &Settings, any_port: bool, report: ReportFn<'_>) {
    const KEY: &str = "listen.admin";
    let Some(admin) = settings.listen.admin.address() else { return };
    if !admin.ip().to_canonical().is_loopback() && settings.admin.token_file.is_none() {
        let hint = "set admin.token_file, so that not everybody may look; or write \"127.0.0.1:3129\", or \"off\"";
        report(KEY, format!("{admin} can be reached from other machines"), Some(hint.into()));
    }
    if admin.port() == 0 && !any_port {
        let hint = "--admin takes 0 for any free port";
        report(KEY, format!("{admin} has no port that clients can be given"), Some(hint.into()));
    }
    let taken = settings.listen.proxy.iter().find(|proxy| {
        let same_host = proxy.ip() == admin.ip() || proxy.ip().is_unspecified();
        same_host && proxy.port() == admin.port() && admin.port() != 0
    });
    if let Some(proxy) = taken {
        let hint = "choose another port, or \"off\"";
        report(
            KEY,
            format!("{admin} is where the proxy listens: listen.proxy has {proxy}"),
            Some(hint.into()),
        );
    }
}

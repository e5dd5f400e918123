//! The names and types of the settings, derived from the defaults, so that there is no second list.
//! The tree of a file is checked against it before it is merged: afterwards an unknown key has no
//! line any more.

use std::net::{IpAddr, SocketAddr};

use config::{Value, ValueKind};
use ipnet::IpNet;
use serde_json::Value as Json;

use super::diagnostics::Diagnostic;
use super::rules::{AgentRule, Exemption, OriginRule};
use super::settings::Settings;
use crate::audit::AllowedLines;
use crate::pace::PaceMode;
use crate::policy::exemption::OriginPattern;
use crate::types::agent::Token;
use crate::types::origin::{Host, Origin, Scheme};
use crate::types::timestamp::Timestamp;
use crate::types::words::nearest;

/// The types of all settings, as a tree of example values.
#[derive(Debug)]
pub struct Schema(Json);

impl Schema {
    /// The schema of [`Settings`].
    pub fn new() -> Self {
        Self(serde_json::to_value(example().filled()).expect("settings are made of plain values"))
    }

    /// The example at a dotted key.
    pub fn at(&self, key: &str) -> Option<&Json> {
        key.split('.').try_fold(&self.0, |table, name| table.get(name))
    }

    /// The example at a key that may lead through lists: `agents.rules[0].token`.
    pub fn example(&self, key: &str) -> Option<&Json> {
        key.split(['.', '[']).filter(|step| !step.is_empty()).try_fold(&self.0, |at, step| match at
        {
            Json::Array(items) => items.first(),
            table => table.get(step),
        })
    }

    /// The settings as one object.
    #[cfg(test)]
    pub fn at_root(&self) -> &Json {
        &self.0
    }

    /// Every setting that is not a table, dotted.
    pub fn keys(&self) -> Vec<String> {
        leaves(&self.0).into_iter().map(|(key, _)| key).collect()
    }

    /// Reports what in `tree` is no setting, or has another type.
    pub fn check(&self, tree: &Value, diagnostics: &mut Vec<Diagnostic>) {
        self.check_at("", tree, &self.0, diagnostics);
    }

    /// The same of the value at `key`, of which `example` is one.
    pub(super) fn check_at(
        &self,
        key: &str,
        found: &Value,
        example: &Json,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        match (&found.kind, example) {
            (ValueKind::Table(table), Json::Object(known)) => {
                for (name, value) in table {
                    let key = join(key, name);
                    match known.get(name) {
                        Some(example) => self.check_at(&key, value, example, diagnostics),
                        None => diagnostics.push(self.unknown(&key, value.origin())),
                    }
                }
            }
            (ValueKind::Array(items), Json::Array(examples)) => {
                let example = examples.first().unwrap_or(&Json::Null);
                for (index, item) in items.iter().enumerate() {
                    self.check_at(&format!("{key}[{index}]"), item, example, diagnostics);
                }
            }
            (ValueKind::Boolean(_), Json::Bool(_))
            | (ValueKind::I64(_), Json::Number(_))
            | (ValueKind::String(_), Json::String(_)) => {}
            (kind, example) => {
                let problem =
                    format!("expected {}, found {}", kind_of_example(example), kind_of(kind));
                diagnostics.push(Diagnostic::new(key, found.origin(), problem));
            }
        }
    }

    /// What there is to say of a key that is no setting.
    pub(super) fn unknown(&self, key: &str, place: Option<&str>) -> Diagnostic {
        let hint = self.meant(&without_indices(key)).map(|meant| format!("did you mean {meant}?"));
        Diagnostic::new(key, place, "there is no such setting").with_hint(hint)
    }

    /// The setting or table that `key` probably means: the right name in another table, or a
    /// similar name.
    fn meant(&self, key: &str) -> Option<String> {
        let plain = self.keys();
        let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
        let mut moved = plain.iter().filter(|candidate| last(candidate) == last(key));
        if let (Some(one), None) = (moved.next(), moved.next()) {
            return Some(one.clone());
        }
        let mut all = Vec::new();
        names("", &self.0, &mut all);
        nearest(&key.to_lowercase(), all.iter().map(String::as_str)).map(str::to_owned)
    }
}

/// Every leaf below `tree` with its dotted key. Lists are leaves.
pub fn leaves(tree: &Json) -> Vec<(String, &Json)> {
    fn walk<'a>(key: &str, value: &'a Json, found: &mut Vec<(String, &'a Json)>) {
        match value {
            Json::Object(table) => {
                table.iter().for_each(|(name, value)| walk(&join(key, name), value, found));
            }
            _ => found.push((key.to_owned(), value)),
        }
    }
    let mut found = Vec::new();
    walk("", tree, &mut found);
    found
}

/// As [`leaves`], with the tables themselves and the settings of tables in lists.
fn names(key: &str, value: &Json, found: &mut Vec<String>) {
    if !key.is_empty() {
        found.push(key.to_owned());
    }
    let table = match value {
        Json::Array(items) => items.first(),
        _ => Some(value),
    };
    if let Some(Json::Object(table)) = table {
        table.iter().for_each(|(name, value)| names(&join(key, name), value, found));
    }
}

fn join(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}

fn without_indices(key: &str) -> String {
    let mut plain = String::new();
    for part in key.split('[') {
        plain.push_str(part.split_once(']').map_or(part, |(_, rest)| rest));
    }
    plain
}

fn kind_of(kind: &ValueKind) -> String {
    match kind {
        ValueKind::Boolean(value) => value.to_string(),
        ValueKind::String(text) => format!("the text \"{text}\""),
        ValueKind::Table(_) => "a table".into(),
        ValueKind::Array(_) => "a list".into(),
        ValueKind::Nil => "nothing".into(),
        ValueKind::Float(number) if number.is_infinite() => "a number without end".into(),
        number => format!("the number {number}"),
    }
}

fn kind_of_example(example: &Json) -> String {
    let kind = match example {
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a whole number",
        Json::Array(items) if items.first().is_some_and(Json::is_object) => "a list of tables",
        Json::Array(_) => "a list of texts",
        Json::Object(_) => "a table",
        Json::String(text) if !text.is_empty() => {
            return format!("a text in quotes, such as {example}");
        }
        Json::String(_) | Json::Null => "a text in quotes",
    };
    kind.into()
}

/// The defaults, with a value for every setting that is empty by default.
pub(super) fn example() -> Settings {
    let mut settings = Settings::default();
    let origin = Origin::new(Scheme::Https, Host::Name("example.com".into()), 443);
    let token: Token = "ExampleBot".parse().expect("a token");
    settings.workers = Some(1);
    settings.listen.proxy = vec![SocketAddr::from(([127, 0, 0, 1], 3128))];
    settings.listen.tls_cert = Some("proxy.pem".into());
    settings.listen.tls_key = Some("proxy.key".into());
    settings.listen.transparent = vec![SocketAddr::from(([127, 0, 0, 1], 3130))];
    settings.admin.token_file = Some("admin.token".into());
    settings.admin.viewer_token_file = Some("viewer.token".into());
    settings.admin.origins = vec!["https://courtesy.example".parse().expect("an origin")];
    settings.clients.allow = vec![IpNet::from(IpAddr::from([127, 0, 0, 1]))];
    settings.clients.users_file = Some("users.toml".into());
    settings.robots.contact = Some("https://example.com".parse().expect("it is a URL"));
    settings.egress.allow = vec!["10.0.0.0/8".parse().expect("a block")];
    settings.egress.deny = settings.egress.allow.clone();
    settings.egress.parent = Some("http://proxy.example:3128".parse().expect("an address"));
    settings.egress.parents = vec!["example.com=direct".parse().expect("a rule")];
    settings.egress.parent_credentials_file = Some("parent.credentials".into());
    settings.pace.shared_addresses = settings.clients.allow.clone();
    settings.https.tunnel = vec!["example.com".parse().expect("a host")];
    settings.egress.allow_hosts = settings.https.tunnel.clone();
    settings.egress.deny_hosts = settings.https.tunnel.clone();
    settings.https.ca_cert = Some("ca.pem".into());
    settings.pace.mode = Some(PaceMode::Enforce);
    settings.https.ca_key = Some("ca.key".into());
    settings.tls.extra_roots = vec!["root.pem".into()];
    settings.tls.insecure_origins = vec![origin.host().clone()];
    settings.audit.allowed = Some(AllowedLines::All);
    settings.audit.redact_paths = vec!["/users/*/".parse().expect("a pattern")];
    settings.engine.url = Some("redis://engine:6379".parse().expect("it is a URL"));
    settings.engine.url_file = Some("engine.url".into());
    settings.engine.user = Some("courtesy".into());
    settings.engine.password_file = Some("engine.password".into());
    settings.engine.ca = Some("engine-ca.pem".into());
    settings.engine.cert = Some("engine.pem".into());
    settings.engine.key = Some("engine.key".into());
    settings.engine.sentinel = Some("main".into());
    settings.engine.name = Some("pod-7".into());
    settings.engine.seal_key_file = Some("engine.seal".into());
    settings.agents.rules = vec![AgentRule {
        matches: "*".parse().expect("a pattern"),
        token: Some(token.clone()),
        mode: Some(settings.robots.mode),
        profile: Some(settings.robots.profile),
        deny_status: Some(settings.deny.status),
        pace: settings.pace.mode,
        max_wait: Some(settings.pace.max_wait),
        pace_status: Some(settings.pace.status),
    }];
    settings.origins = vec![OriginRule {
        origin: origin.clone(),
        mode: Some(settings.robots.mode),
        profile: Some(settings.robots.profile),
        pace: settings.pace.mode,
        delay: Some(settings.pace.delay),
        concurrency: Some(settings.pace.concurrency),
    }];
    settings.exemptions = vec![Exemption {
        origin: OriginPattern::Exact(origin),
        paths: vec!["/".parse().expect("a path pattern")].into(),
        agents: vec![token],
        by: "operator".into(),
        reason: "some reason".into(),
        ticket: Some("ticket".into()),
        until: Timestamp::from_millis(0),
        crawl_delay: Some(settings.pace.delay),
    }];
    settings
}

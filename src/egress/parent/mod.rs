//! Parent proxies: connections to origins are made through another proxy, by CONNECT of HTTP (RFC
//! 9110 §9.3.6), in clear or inside TLS, or by SOCKS5 (RFC 1928). What a parent answers is never
//! taken for the origin's answer, and nothing falls back to a direct connection. By setting,
//! requests to `http://` origins are sent to it in absolute-form instead.

mod absolute;
mod address;
mod connect;
mod proxy;
mod socks;

use std::sync::Arc;

use http::Method;

use super::error::{Error, Failure};
pub use super::error::{Fault, ParentFailure};
use crate::types::loop_token::LoopToken;
use crate::types::origin::{Host, Origin, Scheme};
pub use absolute::{Forwarder, restore_origin_form};
pub use address::{
    ParentAddress, ParentCredentials, ParentCredentialsError, ParentHttp, ParentResolve,
    ParentRule, ParentScheme, ParentTarget,
};
pub use proxy::{Parent, ParentStats};

/// Which parent makes the connections to which hosts.
#[derive(Clone, Debug, Default)]
pub struct Parents {
    rules: Vec<(ParentRule, Option<Arc<Parent>>)>,
    default: Option<Arc<Parent>>,
    pub resolve: ParentResolve,
    pub http: ParentHttp,
    /// By which this process recognises its own requests to parents.
    pub loop_token: Option<LoopToken>,
}

impl Parents {
    /// `default` for the hosts that no rule has. `credentials` are those of the default, and of
    /// rules that name the same.
    pub fn new(
        default: Option<ParentAddress>,
        rules: Vec<ParentRule>,
        credentials: Option<&ParentCredentials>,
        resolve: ParentResolve,
    ) -> Self {
        let mut known: Vec<Arc<Parent>> = Vec::new();
        let mut parent = |address: &ParentAddress| {
            if let Some(same) = known.iter().find(|it| it.address == *address) {
                return Arc::clone(same);
            }
            let credentials = credentials.filter(|_| Some(address) == default.as_ref()).cloned();
            let made = Arc::new(Parent::new(address.clone(), credentials));
            known.push(Arc::clone(&made));
            made
        };
        let of_hosts = rules.into_iter().map(|rule| {
            let made = rule.parent.as_ref().map(&mut parent);
            (rule, made)
        });
        let rules = of_hosts.collect();
        let default = default.as_ref().map(parent);
        Self { rules, default, resolve, http: ParentHttp::default(), loop_token: None }
    }

    /// With `loop_token`, by which this process recognises its own requests, and at most
    /// `dials_max` connections being made by each parent at a time for clients, and as many for
    /// robots.txt.
    #[must_use]
    pub fn of_process(mut self, loop_token: &LoopToken, dials_max: usize) -> Self {
        self.loop_token = Some(loop_token.clone());
        for parent in self.all() {
            parent.resize_dials(dials_max);
        }
        self
    }

    /// Keeps what `before` has learnt of parents that are named again with the same credentials.
    pub(super) fn keep_known(&mut self, before: &Self) {
        let slots = self.rules.iter_mut().map(|(_, slot)| slot).chain([&mut self.default]);
        for parent in slots.flatten() {
            if let Some(known) = before.all().find(|known| known.is_same(parent)) {
                known.resize_dials(parent.dials.max());
                *parent = Arc::clone(known);
            }
        }
    }

    /// Whether a parent of `before` is named again with other credentials.
    pub(super) fn has_other_credentials(&self, before: &Self) -> bool {
        let of = |known: &Arc<Parent>| self.all().find(|it| it.address == known.address).cloned();
        before.all().any(|known| of(known).is_some_and(|now| !now.is_same(known)))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Parent>> {
        self.rules.iter().filter_map(|(_, it)| it.as_ref()).chain(&self.default)
    }

    /// The parent for `host`: of the first rule that has it. `None`: the connection is direct.
    pub fn of(&self, host: &Host) -> Option<&Arc<Parent>> {
        let rule = self.rules.iter().find(|(rule, _)| rule.host.matches(host));
        rule.map_or(self.default.as_ref(), |(_, parent)| parent.as_ref())
    }

    /// The parent that forwards requests to `origin` in absolute-form, if one does.
    pub(super) fn forwarder(&self, origin: &Origin) -> Option<&Arc<Parent>> {
        let is_http =
            |scheme: ParentScheme| matches!(scheme, ParentScheme::Http | ParentScheme::Https);
        let forwards = self.http == ParentHttp::Absolute && origin.scheme() == Scheme::Http;
        self.of(origin.host()).filter(|it| forwards && is_http(it.address.scheme()))
    }

    /// Checks that a request with `method` to `origin` can go by its parent.
    ///
    /// # Errors
    ///
    /// TRACE in absolute-form: a parent that answers it itself returns the credentials for it,
    /// which stand in the request (RFC 9110 §9.3.8).
    pub(super) fn check_method(&self, origin: &Origin, method: &Method) -> Result<(), Error> {
        if *method != Method::TRACE {
            return Ok(());
        }
        let reason = "TRACE is not sent in absolute-form (egress.parent_http)";
        match self.forwarder(origin) {
            Some(parent) => Err(parent.error(Failure::Parent, reason)),
            None => Ok(()),
        }
    }

    /// Whether the name `host` is resolved here.
    pub(super) fn resolve_here(&self, host: &Host) -> bool {
        self.resolve != ParentResolve::Parent
            || self.of(host).is_none_or(|it| it.address.scheme() == ParentScheme::Socks5)
    }

    /// Whether a connection to `host` under `before` was made in the same way.
    pub(super) fn leads_as(&self, before: &Self, host: &Host) -> bool {
        match (self.of(host), before.of(host)) {
            (None, None) => true,
            (Some(now), Some(then)) => {
                now.is_same(then) && (self.resolve, self.http) == (before.resolve, before.http)
            }
            _ => false,
        }
    }

    /// Whether all connections go by this parent.
    fn is_only(&self, parent: &Arc<Parent>) -> bool {
        let is_it = |other: &Option<Arc<Parent>>| {
            other.as_ref().is_some_and(|other| other.address == parent.address)
        };
        is_it(&self.default) && self.rules.iter().all(|(_, other)| is_it(other))
    }

    /// The state of each parent.
    pub fn stats(&self) -> Vec<ParentStats> {
        let mut stats: Vec<ParentStats> = Vec::new();
        for parent in self.all() {
            let of_parent = parent.stats(self.is_only(parent));
            if !stats.iter().any(|known| known.parent == of_parent.parent) {
                stats.push(of_parent);
            }
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::split_url;

    fn origin(url: &str) -> Origin {
        split_url(url.as_bytes()).unwrap().0
    }

    fn parents(secret: &str) -> Parents {
        let rules = ["a.example=direct", "*.example=socks5h://s:1080", "b.test=http://p:3128"];
        let rules = rules.map(|rule| rule.parse().unwrap()).to_vec();
        let default: ParentAddress = "http://p:3128".parse().unwrap();
        let secret = secret.parse().unwrap();
        Parents::new(Some(default), rules, Some(&secret), ParentResolve::default())
    }

    #[test]
    fn the_first_rule_that_has_the_host_names_its_parent() {
        let parents = parents("name:password");
        for (name, expected) in [
            ("a.example", None),
            ("b.example", Some("socks5h://s:1080")),
            ("b.test", Some("http://p:3128")),
            ("c.test", Some("http://p:3128")),
        ] {
            let found = parents.of(origin(&format!("https://{name}/")).host());
            let shown = found.map(|it| it.address.to_string());
            assert_eq!(shown.as_deref(), expected, "{name}");
            let is_default = expected == Some("http://p:3128");
            assert_eq!(found.is_some_and(|it| it.credentials().is_some()), is_default, "{name}");
        }
        assert_eq!(parents.stats().len(), 2);
        assert!(!format!("{parents:?}").contains("password"));
    }

    #[test]
    fn only_http_origins_are_forwarded_in_absolute_form_and_only_by_http() {
        let mut parents = parents("name:password");
        for (http, url, forwards) in [
            (ParentHttp::Connect, "http://c.test/", false),
            (ParentHttp::Absolute, "http://c.test/", true),
            (ParentHttp::Absolute, "http://c.test:8080/", true),
            (ParentHttp::Absolute, "https://c.test/", false),
            (ParentHttp::Absolute, "http://b.example/", false),
            (ParentHttp::Absolute, "http://a.example/", false),
        ] {
            parents.http = http;
            assert_eq!(parents.forwarder(&origin(url)).is_some(), forwards, "{http} {url}");
        }
    }

    #[test]
    fn what_a_parent_has_shown_outlives_a_reload_with_its_credentials() {
        let before = parents("name:password").of_process(&LoopToken::new([1; 16]), 4);
        for (secret, is_kept) in [("name:password", true), ("name:other", false)] {
            let mut after = parents(secret).of_process(&LoopToken::new([1; 16]), 8);
            after.keep_known(&before);
            let host = origin("https://c.test/");
            let [old, new] = [&before, &after].map(|it| Arc::clone(it.of(host.host()).unwrap()));
            assert_eq!(Arc::ptr_eq(&old, &new), is_kept, "{secret}");
            assert_eq!(new.dials.max(), 8);
            assert_eq!(after.leads_as(&before, host.host()), is_kept);
        }
    }
}

//! Each client of this machine, tried: with the variables of `courtesy env` it fetches a page that is
//! allowed and one that is not. The site counts what arrives, and by which way.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::super::clients::{self, Variable};
use super::super::exit::Failure;
use super::finding::Finding;
use super::trial::{DISALLOWED, Trial};
use crate::ca::{TABLE, TrialRow};
use crate::cli::environment::{self, NoProxy};
use crate::cli::output::human_duration;
use crate::config::Settings;
use crate::pace::PaceMode;
use crate::types::origin::Scheme;

/// A Java program is compiled first, a browser unpacks itself.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);

/// One finding for each client that could be there, and whose name begins with one of `names`, if
/// there are any.
pub fn try_all(
    trial: &Trial,
    settings: &Settings,
    names: &[String],
) -> Result<Vec<Finding>, Failure> {
    for file in &TABLE.files {
        std::fs::write(trial.scratch.path().join(&file.name), &file.text)?;
    }
    // The site is on loopback.
    let no_proxy = NoProxy { proxy_loopback: true, ..NoProxy::default() };
    let setup = clients::set_up(trial.proxy.address, no_proxy, settings)?;
    let variables = clients::variables(&setup);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let wanted = |client: &&TrialRow| {
        names.is_empty() || names.iter().any(|name| client.name.starts_with(name))
    };
    let pace = settings.pace();
    let max_wait = if pace.mode == PaceMode::Enforce { pace.max_wait } else { Duration::ZERO };
    let attempt = |client| {
        runtime.block_on(Attempt { client, max_wait, trial, variables: &variables }.finding())
    };
    Ok(TABLE.trials.iter().filter(wanted).map(attempt).collect())
}

struct Attempt<'a> {
    client: &'static TrialRow,
    /// `pace.max_wait`, unless no request is held.
    max_wait: Duration,
    trial: &'a Trial,
    variables: &'a [Variable],
}

impl Attempt<'_> {
    async fn finding(&self) -> Finding {
        let name = &*self.client.name;
        let Some(program) = self.program().await else {
            return Finding::untried(name, "not installed");
        };
        for scheme in &self.trial.schemes {
            if let Some(finding) = self.trouble(&program, *scheme).await {
                return finding;
            }
        }
        let schemes: Vec<_> = self.trial.schemes.iter().map(|scheme| scheme.as_str()).collect();
        let schemes = schemes.join(" and ");
        let said = format!("goes through the proxy by {schemes}, and is denied what is disallowed");
        let timeout = Duration::from_secs(self.client.timeout);
        if timeout.is_zero() || self.max_wait <= timeout {
            return Finding::well(name, said);
        }
        let (timeout, max_wait) = (human_duration(timeout), human_duration(self.max_wait));
        Finding {
            remedy: Some(format!(
                "for sites with a long Crawl-delay, give it a longer timeout or set pace.max_wait below {timeout}"
            )),
            ..Finding::well(
                name,
                format!(
                    "{said}; it gives up after {timeout}, and may be held for {max_wait} (pace.max_wait)"
                ),
            )
        }
    }

    /// The program, if it is there with all that it needs.
    async fn program(&self) -> Option<PathBuf> {
        let program =
            self.client.programs.iter().find_map(|program| environment::find_program(program))?;
        let probe = self.client.probe.iter().map(ToString::to_string);
        let probed = self.run(&program, probe).await.ok()?;
        probed.status.success().then_some(program)
    }

    /// What does not work with this scheme, if anything.
    async fn trouble(&self, program: &Path, scheme: Scheme) -> Option<Finding> {
        let TrialRow { name, remedy, .. } = self.client;
        let word = format!("{}-{}", name.replace(' ', "-"), scheme.as_str());
        let (allowed, disallowed) = (format!("/{word}"), format!("{DISALLOWED}{word}"));
        let outcome = self.fetch(program, &self.trial.site.url(scheme, &allowed)).await;
        if self.trial.site.visit(&allowed) != Some(true) {
            return Some(self.did_not_come(scheme, &allowed, outcome));
        }
        // How it takes a 403 is its own affair.
        let _ = self.fetch(program, &self.trial.site.url(scheme, &disallowed)).await;
        let around = self.trial.site.visit(&disallowed).is_some();
        around.then(|| self.fault("goes around the proxy when it is denied".into(), remedy))
    }

    fn did_not_come(&self, scheme: Scheme, path: &str, outcome: Result<Output, String>) -> Finding {
        let TrialRow { remedy, trust, .. } = self.client;
        if self.trial.site.visit(path).is_some() {
            return self
                .fault("goes around the proxy: it does not follow the variables".into(), remedy);
        }
        let said = match outcome {
            Ok(output) => reason(&output.stderr),
            Err(error) => error,
        };
        let remedy = if scheme == Scheme::Https { trust } else { remedy };
        self.fault(format!("does not reach the site by {}: {said}", scheme.as_str()), remedy)
    }

    fn fault(&self, said: String, remedy: &str) -> Finding {
        if self.client.is_known {
            Finding::known(&self.client.name, said + ", as is known of it", remedy)
        } else {
            Finding::bad(&self.client.name, said, remedy)
        }
    }

    async fn fetch(&self, program: &Path, url: &str) -> Result<Output, String> {
        let scratch = self.trial.scratch.path().to_string_lossy();
        let arguments =
            self.client.arguments.iter().map(|argument| argument.replace("SCRATCH", &scratch));
        self.run(program, arguments.chain([url.to_owned()])).await
    }

    async fn run(
        &self,
        program: &Path,
        arguments: impl Iterator<Item = String>,
    ) -> Result<Output, String> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        command.envs(self.variables.iter().map(|variable| (variable.name, &variable.value)));
        match timeout(ATTEMPT_TIMEOUT, command.output()).await {
            Ok(output) => output.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no end after {ATTEMPT_TIMEOUT:?}")),
        }
    }
}

/// What a program says at last of what went wrong. Browsers write their own log there, and the complaints of
/// the script that starts them: of those, no more is said than the number of the error.
fn reason(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = || text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let number =
        |line: &str| Some(line.split("net_error ").nth(1)?.split_whitespace().next()?.to_owned());
    if let Some(number) = lines().filter(|line| is_log(line)).find_map(number) {
        return format!("network error {number}");
    }
    lines().find(|line| !is_log(line)).unwrap_or("it gives no reason").to_owned()
}

/// Whether this is a line of Chromium's log: `[4026:4026:1123/215733.1:ERROR:file.cc(878)] …`.
fn is_log(line: &str) -> bool {
    let within = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    within.is_some_and(|(place, _)| {
        place.split(':').count() > 2 && place.starts_with(|it: char| it.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_browsers_log_is_a_reason() {
        let log = "[4026:4035:1123/215733.104:ERROR:dbus/bus.cc(408)] Failed to connect to the bus: none\n\
                   [4051:4056:1123/215733.311:ERROR:net/socket/ssl_client_socket_impl.cc(878)] handshake failed; \
                   returned -1, SSL error code 1, net_error -202\n";
        assert_eq!(reason(log.as_bytes()), "network error -202");
        assert_eq!(
            reason(format!("{log}chromium: 9: [: unexpected operator\n").as_bytes()),
            "network error -202"
        );
        let first = log.lines().next().unwrap();
        assert_eq!(reason(first.as_bytes()), "it gives no reason");
        assert_eq!(reason(format!("{first}\ncurl: (60) SSL\n\n").as_bytes()), "curl: (60) SSL");
        assert_eq!(
            (reason(b""), reason(b"[warn] no")),
            ("it gives no reason".into(), "[warn] no".into())
        );
    }
}

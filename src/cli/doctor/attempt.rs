//! Each client of this machine, tried: with the variables of `courtesy env` it fetches a page that is
//! allowed and one that is not. The site knows what came, and which way.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::super::clients::{self, Variable};
use super::super::exit::Failure;
use super::super::no_proxy::NoProxy;
use super::super::programs;
use super::clients::{CLIENTS, Client, JAVA, JAVA_FILE, SCRATCH};
use super::finding::Finding;
use super::site::DISALLOWED;
use super::trial::Trial;
use crate::config::Settings;
use crate::origin::Scheme;

/// A Java program is compiled first, a browser unpacks itself.
const PATIENCE: Duration = Duration::from_secs(30);

/// One finding for each client that could be there, and whose name begins with one of `names`, if
/// there are any.
pub fn try_all(trial: &Trial, settings: &Settings, names: &[String]) -> Result<Vec<Finding>, Failure> {
    std::fs::write(trial.scratch.0.join(JAVA_FILE), JAVA)?;
    // The site is on loopback.
    let no_proxy = NoProxy { proxy_loopback: true, ..NoProxy::default() };
    let way = clients::way(trial.proxy.address, no_proxy, settings)?;
    let variables = clients::variables(&way);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let wanted =
        |client: &&Client| names.is_empty() || names.iter().any(|name| client.name.starts_with(name));
    let attempt = |client| runtime.block_on(Attempt { client, trial, variables: &variables }.finding());
    Ok(CLIENTS.iter().filter(wanted).map(attempt).collect())
}

struct Attempt<'a> {
    client: &'a Client,
    trial: &'a Trial,
    variables: &'a [Variable],
}

impl Attempt<'_> {
    async fn finding(&self) -> Finding {
        let name = self.client.name;
        let Some(program) = self.program().await else { return Finding::untried(name, "not installed") };
        for scheme in &self.trial.schemes {
            if let Some(finding) = self.trouble(&program, *scheme).await {
                return finding;
            }
        }
        let schemes: Vec<_> = self.trial.schemes.iter().map(|scheme| scheme.as_str()).collect();
        let schemes = schemes.join(" and ");
        Finding::well(name, format!("goes through the proxy by {schemes}, and is denied what is disallowed"))
    }

    /// The program, if it is there with all that it needs.
    async fn program(&self) -> Option<PathBuf> {
        let program = self.client.programs.iter().find_map(|program| programs::find(program))?;
        let probe = self.client.probe.iter().map(ToString::to_string);
        let probed = self.run(&program, probe).await.ok()?;
        probed.status.success().then_some(program)
    }

    /// What does not work with this scheme, if anything.
    async fn trouble(&self, program: &Path, scheme: Scheme) -> Option<Finding> {
        let Client { name, remedy, .. } = *self.client;
        let word = format!("{}-{}", name.replace(' ', "-"), scheme.as_str());
        let (allowed, disallowed) = (format!("/{word}"), format!("{DISALLOWED}{word}"));
        let outcome = self.fetch(program, &self.trial.site.url(scheme, &allowed)).await;
        if self.trial.site.visit(&allowed) != Some(true) {
            return Some(self.did_not_come(scheme, &allowed, outcome));
        }
        // How it takes a 403 is its own affair.
        let _ = self.fetch(program, &self.trial.site.url(scheme, &disallowed)).await;
        let around = self.trial.site.visit(&disallowed).is_some();
        around.then(|| Finding::bad(name, "goes around the proxy when it is denied", remedy))
    }

    fn did_not_come(&self, scheme: Scheme, path: &str, outcome: Result<Output, String>) -> Finding {
        let Client { name, remedy, trust, .. } = *self.client;
        if self.trial.site.visit(path).is_some() {
            return Finding::bad(name, "goes around the proxy: it does not follow the variables", remedy);
        }
        let said = match outcome {
            Ok(output) => last_line(&output.stderr),
            Err(error) => error,
        };
        let remedy = if scheme == Scheme::Https { trust } else { remedy };
        Finding::bad(name, format!("does not reach the site by {}: {said}", scheme.as_str()), remedy)
    }

    async fn fetch(&self, program: &Path, url: &str) -> Result<Output, String> {
        let scratch = self.trial.scratch.0.to_string_lossy();
        let arguments = self.client.arguments.iter().map(|argument| argument.replace(SCRATCH, &scratch));
        self.run(program, arguments.chain([url.to_owned()])).await
    }

    async fn run(&self, program: &Path, arguments: impl Iterator<Item = String>) -> Result<Output, String> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        command.envs(self.variables.iter().map(|variable| (variable.name, &variable.value)));
        match timeout(PATIENCE, command.output()).await {
            Ok(output) => output.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no end after {PATIENCE:?}")),
        }
    }
}

/// Where programs say what went wrong.
fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing").trim().to_owned()
}

//! A robots.txt given as a file: `check --robots FILE`.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::answer::{Answer, Robots, printable};
use super::offline::{Library, ruling};
use super::pace::{OperatorPace, Pace, is_tunnelled};
use super::query::Defaults;
use crate::audit::Record;
use crate::cli::exit::{Exit, Failure};
use crate::cli::limits::BATCH_BYTES_MAX;
use crate::config::ProfileName;
use crate::policy::profile::Profile;
use crate::proxy::Https;
use crate::robots::RobotsTxt;
use crate::runtime::clock::{Clock, SystemClock};

/// A robots.txt that is given as a file, without a network.
pub struct Given {
    name: String,
    body: Vec<u8>,
    profile: ProfileName,
    rules: Arc<RobotsTxt>,
    operator: OperatorPace,
    https: Https,
}

impl Given {
    /// Reads `file`, or standard input for `-`.
    pub fn read(file: &Path, defaults: &Defaults) -> Result<Self, Failure> {
        let (name, body) = if file.as_os_str() == "-" {
            ("standard input".to_owned(), read_bounded(io::stdin().lock()))
        } else {
            (file.display().to_string(), std::fs::File::open(file).and_then(read_bounded))
        };
        let body = body.map_err(|error| Failure {
            exit: Exit::InputOutput,
            error: anyhow::Error::new(error).context(format!("cannot read {}", printable(&name))),
        })?;
        let profile = defaults.profile.unwrap_or(defaults.configured_profile);
        let rules = Library::new().read(&body, profile);
        let (operator, https) = (defaults.pace, defaults.https.clone());
        Ok(Self { name, body, profile, rules, operator, https })
    }

    fn pace(&self, url: &[u8], token: Option<&str>) -> Pace {
        let profile = Profile::named(self.profile.as_str()).expect("a row of the table");
        let operator = OperatorPace { is_tunnel: is_tunnelled(&self.https, url), ..self.operator };
        Pace::of(&self.rules, token, &profile, operator, SystemClock.wall())
            .quoting(&self.body, self.rules.dialect())
    }

    /// The answer about `url` for the agent with this token; an error for what is no URL and no path.
    pub fn answer(&self, url: &[u8], token: Option<&str>) -> Result<Answer, String> {
        check_url_or_path(url)?;
        let ruling = ruling(&self.rules, token, url);
        let robots = Robots::given(&self.name, &self.body, &self.rules, ruling.line);
        Ok(Answer {
            url: Record::url(url),
            ruling,
            agent: token.map(printable),
            profile: self.profile.as_str(),
            robots,
            pace: self.pace(url, token),
            let_through: None,
        })
    }
}

/// Refuses what is neither a URL nor a path: of `private/b`, the first part could be a host, and
/// then another path is asked about.
fn check_url_or_path(url: &[u8]) -> Result<(), String> {
    let authority = url.iter().position(|byte| b"/?#;".contains(byte)).unwrap_or(url.len());
    let has_scheme = authority > 1 && url[authority - 1..].starts_with(b"://");
    if url.starts_with(b"/") || has_scheme {
        return Ok(());
    }
    let url = printable(&String::from_utf8_lossy(url));
    Err(format!(
        "it is neither a URL nor a path; write /{url} for a path, https://{url} for a host"
    ))
}

fn read_bounded(stream: impl Read) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    stream.take(BATCH_BYTES_MAX + 1).read_to_end(&mut body)?;
    if body.len() as u64 > BATCH_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {BATCH_BYTES_MAX} bytes")));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_a_url_nor_a_path_is_refused() {
        let path = ["/", "/private/b", "//a/b", "/a://b", "/?a", "/*"];
        let urls = ["https://a", "https://a/b", "ftp://a/b", "http://a?b"];
        for url in path.into_iter().chain(urls) {
            assert_eq!(check_url_or_path(url.as_bytes()), Ok(()), "{url}");
        }
        let hosts = ["private/b", "example.com", "example.com/private/b", "example.com:80/b"];
        for url in hosts.into_iter().chain(["", "?a", "*", "a:b", "://a", "a/://b", "https:/a"]) {
            let refusal = check_url_or_path(url.as_bytes()).unwrap_err();
            assert!(refusal.contains(&format!("write /{url} for a path")), "{refusal}");
        }
    }
}

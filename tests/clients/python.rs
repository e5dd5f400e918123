//! Clients of Python.

use crate::support::{Run, Site, program, python};

#[test]
fn urllib() {
    let site = Site::start();
    Run::of(&site).four([python("ssl"), program("fetch_urllib.py")], "Python-urllib/");
}

/// As Python 3.13 and later verify by default.
#[test]
fn urllib_at_its_strictest() {
    let site = Site::start();
    Run::of(&site).four([python("ssl"), program("fetch_urllib.py"), "--strict".into()], "Python-urllib/");
}

#[test]
fn requests() {
    let site = Site::start();
    Run::of(&site).four([python("requests"), program("fetch_requests.py")], "python-requests/");
}

#[test]
fn httpx() {
    let site = Site::start();
    Run::of(&site).four([python("httpx"), program("fetch_httpx.py")], "python-httpx/");
}

/// It follows the variables when a session says `trust_env=True`.
#[test]
fn aiohttp() {
    let site = Site::start();
    Run::of(&site).four([python("aiohttp"), program("fetch_aiohttp.py")], "Python/");
}

/// As it comes it verifies nothing; here it does.
#[test]
fn scrapy() {
    let (site, python) = (Site::start(), python("scrapy"));
    let run = Run::of(&site);
    let command = |urls: &[String]| -> Vec<String> {
        let command = [&*python, "-m", "scrapy", "runspider", &program("spider.py"), "--loglevel=ERROR"];
        let settings =
            ["DOWNLOAD_VERIFY_CERTIFICATES=True", "RETRY_ENABLED=False", "TELNETCONSOLE_ENABLED=False"];
        let settings = settings.map(str::to_owned).into_iter().chain([format!("SITE={}", urls.join(" "))]);
        command
            .map(str::to_owned)
            .into_iter()
            .chain(settings.flat_map(|setting| ["-s".into(), setting]))
            .collect()
    };
    run.four_by(run.client(command(&site.four())), "Scrapy/");
    run.assert_verifies(command(&[site.url("https", "/page")]));
}

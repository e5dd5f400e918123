//! Clients of Python.

use crate::clients::support::{Run, Site, apt, program, python};

#[test]
#[ignore = "nightly"]
fn urllib() {
    let site = Site::start();
    Run::of(&site).four([python("ssl"), program("fetch_urllib.py")], "Python-urllib/");
}

/// As Python 3.13 and later verify by default.
#[test]
#[ignore = "nightly"]
fn urllib_at_its_strictest() {
    let site = Site::start();
    Run::of(&site)
        .four([python("ssl"), program("fetch_urllib.py"), "--strict".into()], "Python-urllib/");
}

#[test]
fn requests() {
    let site = Site::start();
    Run::of(&site).four([python("requests"), program("fetch_requests.py")], "python-requests/");
}

/// `requests[socks]`, which is PySocks: the name goes to the proxy.
#[test]
#[ignore = "nightly"]
fn requests_by_socks() {
    let python = python("requests, socks");
    let site = Site::start();
    let script = "export HTTPS_PROXY=\"socks5h://${HTTPS_PROXY#http://}\"
        export HTTP_PROXY=\"$HTTPS_PROXY\" http_proxy=\"$HTTPS_PROXY\" https_proxy=\"$HTTPS_PROXY\"
        exec \"$@\"";
    let client = ["sh", "-c", script, "sh", &python, &program("fetch_requests.py")];
    Run::of(&site).four(client, "python-requests/");
}

#[test]
#[ignore = "nightly"]
fn httpx() {
    let site = Site::start();
    Run::of(&site).four([python("httpx"), program("fetch_httpx.py")], "python-httpx/");
}

#[test]
#[ignore = "nightly"]
fn httplib2() {
    let site = Site::start();
    Run::of(&site).four([python("httplib2"), program("fetch_httplib2.py")], "Python-httplib2/");
}

/// It reads robots.txt, too, where it is left to; here the proxy is to be asked.
#[test]
#[ignore = "nightly"]
fn mechanize() {
    let site = Site::start();
    Run::of(&site).four([python("mechanize"), program("fetch_mechanize.py")], "Python-urllib/");
}

/// As it comes it follows nothing; it is given the proxy.
#[test]
#[ignore = "nightly"]
fn urllib3_proxy_manager() {
    let site = Site::start();
    Run::of(&site).four([python("urllib3"), program("fetch_urllib3.py")], "python-urllib3/");
}

/// Debian's, over a libcurl with GnuTLS, which takes its authorities from no variable: it is told them.
#[test]
#[ignore = "nightly"]
fn pycurl() {
    let python = apt("/usr/bin/python3", "python3-pycurl");
    let site = Site::start();
    let run = Run::of(&site);
    let client = [python.clone(), program("fetch_pycurl.py")];
    run.four_by(run.client(client.into_iter().chain(site.four())), "PycURL/");
    run.assert_refuses(&format!("{python} {} --as-it-comes", program("fetch_pycurl.py")));
}

/// It follows the variables when a session says `trust_env=True`.
#[test]
#[ignore = "nightly"]
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
        let command =
            [&*python, "-m", "scrapy", "runspider", &program("spider.py"), "--loglevel=ERROR"];
        let settings = [
            "DOWNLOAD_VERIFY_CERTIFICATES=True",
            "RETRY_ENABLED=False",
            "TELNETCONSOLE_ENABLED=False",
        ];
        let settings =
            settings.map(str::to_owned).into_iter().chain([format!("SITE={}", urls.join(" "))]);
        command
            .map(str::to_owned)
            .into_iter()
            .chain(settings.flat_map(|setting| ["-s".into(), setting]))
            .collect()
    };
    run.four_by(run.client(command(&site.four())), "Scrapy/");
    run.assert_verifies(command(&[site.url("https", "/page")]));
}

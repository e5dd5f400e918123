//! The clients that are tried, each with how to make it fetch one URL.

/// A client that is tried: how it is called, and what to do if it fails.
#[derive(Debug)]
pub struct Client {
    pub name: &'static str,
    /// The first that is installed is taken.
    pub programs: &'static [&'static str],
    /// The URL comes after them; [`SCRATCH`] in them is a directory that is gone afterwards.
    pub arguments: &'static [&'static str],
    /// Arguments that fail where this part is not installed.
    pub probe: &'static [&'static str],
    /// Whether it is known to follow no variable, or only in part: no fault of this machine.
    pub is_known: bool,
    /// Its default timeout for the begin of a response, in seconds; 0: it has none.
    pub timeout: u64,
    /// What to do when it goes around the proxy.
    pub remedy: &'static str,
    /// What to do when it does not trust the proxy's certificate.
    pub trust: &'static str,
}

/// Stands for the temporary directory in [`Client::arguments`].
pub const SCRATCH: &str = "SCRATCH";

/// Programs that must be in a file, by the file's name: Java compiles it first, and PHP heeds its settings
/// about every script for files alone.
pub const FILES: [(&str, &str); 2] = [
    (
        "Fetch.java",
        "\
import java.net.*;
public class Fetch {
    public static void main(String[] args) throws Exception {
        new URL(args[0]).openStream().readAllBytes();
    }
}
",
    ),
    ("fetch.php", "<?php exit(file_get_contents($argv[1]) === false ? 1 : 0);\n"),
];

const URLLIB: &str = "import sys, urllib.request as r; r.urlopen(sys.argv[1]).read()";
const URLLIB3: &str =
    "import sys, urllib3; urllib3.PoolManager().request('GET', sys.argv[1], retries=False)";
const REQUESTS: &str = "import sys, requests; requests.get(sys.argv[1]).raise_for_status()";
const HTTPX: &str = "import sys, httpx; httpx.get(sys.argv[1]).raise_for_status()";
const AIOHTTP: &str = "\
import aiohttp, asyncio, sys
async def main():
    async with aiohttp.ClientSession() as session:
        async with session.get(sys.argv[1]) as answer:
            await answer.read()
asyncio.run(main())";
const PYCURL: &str = "import pycurl, sys; c = pycurl.Curl(); c.setopt(c.URL, sys.argv[1]); c.setopt(c.NOBODY, 1); c.perform()";
const NODE: &str = "fetch(process.argv[1]).then(r => { if (!r.ok) throw r.status })";
const LWP: &str =
    "my $r = LWP::UserAgent->new->get($ARGV[0]); die $r->status_line unless $r->is_success";
const MOJO: &str = "Mojo::UserAgent->new->get($ARGV[0])->result";
const PHP_CURL: &str =
    "$c = curl_init($argv[1]); if (!curl_exec($c)) { fwrite(STDERR, curl_error($c)); exit(1); }";

/// A cure of clients that are libraries is a line in the program that uses them.
pub const CLIENTS: [Client; 19] = [
    Client {
        name: "curl",
        programs: &["curl"],
        arguments: &["-sSf", "-o", "/dev/null"],
        probe: &["--version"],
        is_known: false,
        timeout: 0,
        remedy: "look for a proxy or noproxy line in ~/.curlrc",
        trust: "look for a cacert line in ~/.curlrc; CURL_CA_BUNDLE or --cacert must name the bundle",
    },
    Client {
        name: "wget",
        programs: &["wget"],
        arguments: &["-nv", "-t1", "-O", "/dev/null"],
        probe: &["--version"],
        is_known: false,
        timeout: 900,
        remedy: "look for use_proxy or no_proxy lines in ~/.wgetrc and /etc/wgetrc",
        trust: "--ca-certificate, or ca_certificate in the file that WGETRC names, must name the bundle",
    },
    Client {
        name: "python urllib",
        programs: &["python3"],
        arguments: &["-c", URLLIB],
        probe: &["-c", "import urllib.request, ssl"],
        is_known: false,
        timeout: 0,
        remedy: "look for a sitecustomize that changes the environment",
        trust: "SSL_CERT_FILE must name the bundle, before Python starts",
    },
    Client {
        name: "python requests",
        programs: &["python3"],
        arguments: &["-c", REQUESTS],
        probe: &["-c", "import requests"],
        is_known: false,
        timeout: 0,
        remedy: "sessions with trust_env = False follow no variable: give them proxies=",
        trust: "REQUESTS_CA_BUNDLE or verify= must name the bundle; SSL_CERT_FILE is not looked at",
    },
    Client {
        name: "python httpx",
        programs: &["python3"],
        arguments: &["-c", HTTPX],
        probe: &["-c", "import httpx"],
        is_known: false,
        timeout: 5,
        remedy: "clients with trust_env=False follow no variable: give them proxy=",
        trust: "SSL_CERT_FILE must name the bundle",
    },
    Client {
        name: "python urllib3",
        programs: &["python3"],
        arguments: &["-c", URLLIB3],
        probe: &["-c", "import urllib3"],
        is_known: true,
        timeout: 0,
        remedy: "ProxyManager(os.environ[\"HTTPS_PROXY\"], ca_certs=os.environ[\"SSL_CERT_FILE\"]) in the program",
        trust: "SSL_CERT_FILE must name the bundle",
    },
    Client {
        name: "python aiohttp",
        programs: &["python3"],
        arguments: &["-c", AIOHTTP],
        probe: &["-c", "import aiohttp"],
        is_known: true,
        timeout: 300,
        remedy: "ClientSession(trust_env=True) in the program",
        trust: "SSL_CERT_FILE must name the bundle",
    },
    Client {
        name: "python pycurl",
        programs: &["python3"],
        arguments: &["-c", PYCURL],
        probe: &["-c", "import pycurl"],
        is_known: true,
        timeout: 0,
        remedy: "look for setopt(PROXY or NOPROXY) in the program",
        trust: "setopt(pycurl.CAINFO, os.environ[\"CURL_CA_BUNDLE\"]) in the program",
    },
    Client {
        name: "perl lwp",
        programs: &["perl"],
        arguments: &["-MLWP::UserAgent", "-e", LWP],
        probe: &["-MLWP::Protocol::https", "-e", "1"],
        is_known: false,
        timeout: 180,
        remedy: "PERL_LWP_ENV_PROXY must be 1; agents with env_proxy => 0 follow no variable",
        trust: "PERL_LWP_SSL_CA_FILE must name the bundle",
    },
    Client {
        name: "perl mojo",
        programs: &["perl"],
        arguments: &["-MMojo::UserAgent", "-e", MOJO],
        probe: &["-MMojo::UserAgent", "-MIO::Socket::SSL", "-e", "1"],
        is_known: false,
        timeout: 40,
        remedy: "MOJO_PROXY must be 1",
        trust: "MOJO_CA_FILE must name the bundle",
    },
    Client {
        name: "php streams",
        programs: &["php"],
        arguments: &["SCRATCH/fetch.php"],
        probe: &["-r", "exit(ini_get('allow_url_fopen') && extension_loaded('openssl') ? 0 : 1);"],
        is_known: false,
        timeout: 60,
        remedy: "PHP_INI_SCAN_DIR must name our directory; a context of the program's own needs its own 'proxy'",
        trust: "openssl.cafile must name the bundle",
    },
    Client {
        name: "php curl",
        programs: &["php"],
        arguments: &["-r", PHP_CURL],
        probe: &["-r", "exit(extension_loaded('curl') ? 0 : 1);"],
        is_known: false,
        timeout: 0,
        remedy: "look for CURLOPT_PROXY or CURLOPT_NOPROXY in the program",
        trust: "curl.cainfo must name the bundle: look for it in php.ini",
    },
    Client {
        name: "aria2",
        programs: &["aria2c"],
        arguments: &[
            "-q",
            "--max-tries=1",
            "--dir=SCRATCH",
            "--out=aria2",
            "--allow-overwrite=true",
        ],
        probe: &["--version"],
        is_known: true,
        timeout: 60,
        remedy: "look for proxy lines in aria2.conf",
        trust: "--ca-certificate=\"$SSL_CERT_FILE\", or ca-certificate in aria2.conf",
    },
    Client {
        name: "w3m",
        programs: &["w3m"],
        arguments: &["-dump_source"],
        probe: &["-version"],
        is_known: false,
        timeout: 0,
        remedy: "look for use_proxy in ~/.w3m/config",
        trust: "SSL_CERT_FILE must name the bundle",
    },
    Client {
        name: "links",
        programs: &["links"],
        arguments: &["-source"],
        probe: &["-version"],
        is_known: true,
        timeout: 0,
        remedy: "-http-proxy HOST:PORT -https-proxy HOST:PORT; https:// is refused even so",
        trust: "SSL_CERT_FILE must name the bundle",
    },
    Client {
        name: "httrack",
        programs: &["httrack"],
        arguments: &["-q", "-r1", "-n", "-O", "SCRATCH/httrack"],
        probe: &["--version"],
        is_known: true,
        timeout: 0,
        remedy: "-P HOST:PORT behind the URL, for http:// alone; https:// goes around even so",
        trust: "SSL_CERT_FILE must name the bundle",
    },
    Client {
        name: "node fetch",
        programs: &["node"],
        arguments: &["-e", NODE],
        probe: &["-e", "fetch"],
        is_known: false,
        timeout: 300,
        remedy: "before 22.21 Node follows no variable: update it, or call undici's \
                 setGlobalDispatcher(new EnvHttpProxyAgent())",
        trust: "NODE_EXTRA_CA_CERTS must name the certificate, before Node starts",
    },
    Client {
        name: "java",
        programs: &["java"],
        arguments: &["SCRATCH/Fetch.java"],
        probe: &["--list-modules"],
        is_known: false,
        timeout: 0,
        remedy: "give it -Dhttp.proxyHost, -Dhttp.proxyPort and -Dhttp.nonProxyHosts= yourself",
        trust: "-Djavax.net.ssl.trustStore must name a store with the certificate: keytool -importcert",
    },
    Client {
        name: "chromium",
        programs: &["chromium", "chromium-browser", "google-chrome"],
        // The page is ours, so it needs no sandbox, which would not start for root; and only the
        // page is to be asked for.
        arguments: &[
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--user-data-dir=SCRATCH/chromium",
            "--disable-background-networking",
            "--no-first-run",
            "--dump-dom",
        ],
        probe: &["--version"],
        is_known: false,
        timeout: 0,
        remedy: "give it --proxy-server=HOST:PORT; a desktop's own proxy settings go before variables",
        trust: "its NSS database must have the certificate: certutil -A -t C,, (see courtesy ca install-help chromium)",
    },
];

/// A name from the command line: that of a client, or the beginning of one.
pub fn name(text: &str) -> Result<String, String> {
    if CLIENTS.iter().any(|client| client.name.starts_with(text)) {
        return Ok(text.to_owned());
    }
    let names: Vec<_> = CLIENTS.iter().map(|client| client.name).collect();
    Err(format!("the clients that can be tried are {}", names.join(", ")))
}

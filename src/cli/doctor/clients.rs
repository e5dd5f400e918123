//! The clients that are tried, each with how to make it fetch one URL.

#[derive(Debug)]
pub struct Client {
    pub name: &'static str,
    /// The first that is installed is taken.
    pub programs: &'static [&'static str],
    /// The URL comes after them; [`SCRATCH`] in them is a directory that is gone afterwards.
    pub arguments: &'static [&'static str],
    /// Arguments that fail where this part is not installed.
    pub probe: &'static [&'static str],
    /// What to do when it goes around the proxy.
    pub remedy: &'static str,
    /// What to do when it does not trust the proxy's certificate.
    pub trust: &'static str,
}

pub const SCRATCH: &str = "SCRATCH";

/// A program that must be in a file, by the file's name.
pub const JAVA_FILE: &str = "Fetch.java";

const URLLIB: &str = "import sys, urllib.request as r; r.urlopen(sys.argv[1]).read()";
const REQUESTS: &str = "import sys, requests; requests.get(sys.argv[1]).raise_for_status()";
const NODE: &str = "fetch(process.argv[1]).then(r => { if (!r.ok) throw r.status })";
pub const JAVA: &str = "\
import java.net.*;
public class Fetch {
    public static void main(String[] args) throws Exception {
        new URL(args[0]).openStream().readAllBytes();
    }
}
";

pub const CLIENTS: [Client; 7] = [
    Client {
        name: "curl",
        programs: &["curl"],
        arguments: &["-sSf", "-o", "/dev/null"],
        probe: &["--version"],
        remedy: "look for a proxy or noproxy line in ~/.curlrc",
        trust: "look for a cacert line in ~/.curlrc; CURL_CA_BUNDLE or --cacert must name the bundle",
    },
    Client {
        name: "wget",
        programs: &["wget"],
        arguments: &["-nv", "-t1", "-O", "/dev/null"],
        probe: &["--version"],
        remedy: "look for use_proxy or no_proxy lines in ~/.wgetrc and /etc/wgetrc",
        trust: "--ca-certificate, or ca_certificate in the file that WGETRC names, must name the bundle",
    },
    Client {
        name: "python urllib",
        programs: &["python3"],
        arguments: &["-c", URLLIB],
        probe: &["-c", "import urllib.request, ssl"],
        remedy: "look for a sitecustomize that changes the environment",
        trust: "SSL_CERT_FILE must name the bundle, before Python starts",
    },
    Client {
        name: "python requests",
        programs: &["python3"],
        arguments: &["-c", REQUESTS],
        probe: &["-c", "import requests"],
        remedy: "sessions with trust_env = False follow no variable: give them proxies=",
        trust: "REQUESTS_CA_BUNDLE or verify= must name the bundle; SSL_CERT_FILE is not looked at",
    },
    Client {
        name: "node fetch",
        programs: &["node"],
        arguments: &["-e", NODE],
        probe: &["-e", "fetch"],
        remedy: "before 22.21 Node follows no variable: update it, or call undici's \
                 setGlobalDispatcher(new EnvHttpProxyAgent())",
        trust: "NODE_EXTRA_CA_CERTS must name the certificate, before Node starts",
    },
    Client {
        name: "java",
        programs: &["java"],
        arguments: &["SCRATCH/Fetch.java"],
        probe: &["--list-modules"],
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

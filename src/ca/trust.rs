//! How to make each client trust a certificate authority: one table for the command line and for
//! the proxy's own page.

/// A client and its names.
#[derive(Debug)]
pub struct Client {
    /// The first is the one that is listed.
    pub names: &'static [&'static str],
    /// The instructions; `{file}` stands for the certificate.
    pub help: &'static str,
}

/// The clients for which instructions are known.
pub const CLIENTS: &[Client] = &[
    Client {
        names: &["curl", "libcurl", "curl_cffi"],
        help: "\
export CURL_CA_BUNDLE={file}      # or: curl --cacert {file} …",
    },
    Client {
        names: &["wget"],
        help: "\
wget --ca-certificate={file} …
# or the line ca_certificate={file} in ~/.wgetrc; SSL_CERT_FILE is not looked at",
    },
    Client {
        names: &["python", "urllib"],
        help: "\
export SSL_CERT_FILE={file}",
    },
    Client {
        names: &["requests", "pip"],
        help: "\
export REQUESTS_CA_BUNDLE={file}  # SSL_CERT_FILE is not looked at
export PIP_CERT={file}            # pip",
    },
    Client {
        names: &["httpx"],
        help: "\
export SSL_CERT_FILE={file}       # REQUESTS_CA_BUNDLE is not looked at",
    },
    Client {
        names: &["aiohttp"],
        help: "\
export SSL_CERT_FILE={file}       # before Python starts
# The proxy variables count only with ClientSession(trust_env=True).",
    },
    Client {
        names: &["scrapy"],
        help: "\
# Scrapy verifies nothing unless DOWNLOAD_VERIFY_CERTIFICATES is True; then:
export SSL_CERT_FILE={file}",
    },
    Client {
        names: &["node", "nodejs", "npm", "axios", "undici", "got"],
        help: "\
export NODE_EXTRA_CA_CERTS={file}
export NODE_USE_ENV_PROXY=1       # Node 22.21, 24 and later: lets fetch() use the proxy",
    },
    Client {
        names: &["deno"],
        help: "\
export DENO_CERT={file}",
    },
    Client {
        names: &["java", "jvm"],
        help: "\
courtesy ca export --format p12-instructions | sh     # makes courtesy-ca.p12
export JAVA_TOOL_OPTIONS=\"-Djavax.net.ssl.trustStore=$PWD/courtesy-ca.p12 -Djavax.net.ssl.trustStorePassword=changeit\"
# It replaces the JVM's own roots. The proxy variables are not looked at: -Dhttps.proxyHost, -Dhttps.proxyPort.",
    },
    Client {
        names: &["go", "colly"],
        help: "\
export SSL_CERT_FILE={file}       # on Linux; elsewhere the system's store",
    },
    Client {
        names: &["rust", "reqwest", "cargo"],
        help: "\
export SSL_CERT_FILE={file}
export CARGO_HTTP_CAINFO={file}   # cargo",
    },
    Client {
        names: &["ruby"],
        help: "\
export SSL_CERT_FILE={file}",
    },
    Client {
        names: &["php", "guzzle"],
        help: "\
; php.ini; SSL_CERT_FILE is not looked at
curl.cainfo={file}
openssl.cafile={file}",
    },
    Client {
        names: &["git"],
        help: "\
export GIT_SSL_CAINFO={file}      # goes before: git config --global http.sslCAInfo {file}",
    },
    Client {
        names: &["chromium", "chrome", "playwright", "puppeteer"],
        help: "\
# Linux, with certutil of libnss3-tools; on other systems: the system's store
mkdir -p ~/.pki/nssdb
certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n courtesy -i {file}
# Playwright: newContext({ ignoreHTTPSErrors: true }). QUIC goes around a proxy: --disable-quic.",
    },
    Client {
        names: &["firefox"],
        help: "\
# Each profile, wherever it is (the home directory, XDG, snap, flatpak); certutil is of libnss3-tools
for profiles in ~/.mozilla \"${XDG_CONFIG_HOME:-$HOME/.config}/mozilla\" \\
    ~/snap/firefox/common/.mozilla ~/.var/app/org.mozilla.firefox/.mozilla \\
    ~/.var/app/org.mozilla.firefox/config/mozilla; do
  for database in \"$profiles\"/firefox/*/cert9.db; do
    if [ -f \"$database\" ]; then
      certutil -d sql:\"${database%/cert9.db}\" -A -t C,, -n courtesy -i {file}
    fi
  done
done
# or: Settings, Certificates, Authorities, Import",
    },
    Client {
        names: &["system", "debian", "ubuntu", "alpine", "fedora", "rhel", "macos"],
        help: "\
# Debian, Ubuntu, Alpine
sudo cp {file} /usr/local/share/ca-certificates/courtesy.crt && sudo update-ca-certificates
# Fedora, RHEL
sudo cp {file} /etc/pki/ca-trust/source/anchors/courtesy.pem && sudo update-ca-trust
# Arch
sudo trust anchor {file}
# macOS
sudo security add-trusted-cert -d -k /Library/Keychains/System.keychain {file}",
    },
];

impl Client {
    /// Case-insensitive.
    pub fn named(name: &str) -> Option<&'static Self> {
        let name = name.to_ascii_lowercase();
        CLIENTS.iter().find(|client| client.names.contains(&name.as_str()))
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.names.join(", "))?;
        self.help.lines().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

//! The clients, in the groups in which they are run.

use super::client::Shows::{Page, Status, Text};
use super::client::{BOTH, Client, HTTP, HTTPS};

pub const TERMINAL: &[Client] = &[
    Client::new(
        "curl",
        Status,
        r#"curl -sS --include --max-time 20 --suppress-connect-headers "$@""#,
    ),
    Client::new(
        "wget",
        Status,
        r#"wget -q --tries=1 --timeout=20 --content-on-error --save-headers -O- "$@""#,
    ),
    Client::new(
        "wget2",
        Page,
        r#"for url; do wget2 -qO- --tries=1 --timeout=20 --robots=off "$url"; done"#,
    )
    .but(BOTH, HTTP),
    Client::new(
        "aria2",
        Page,
        r#"for url; do rm -f out; aria2c -q --max-tries=1 --dir=. --out=out "$url"; cat out; done"#,
    ),
    Client::new(
        "HTTPie",
        Status,
        r#"for url; do http --ignore-stdin --pretty=none --print=hb "$url"; done"#,
    ),
    Client::new(
        "HTTrack",
        Page,
        r#"httrack "$@" -q -r1 -n -s0 -O mirror; cat mirror/site.example/page/*/*/*"#,
    ),
    Client::new("lynx", Page, r#"for url; do lynx -source "$url"; done"#),
    Client::new("links", Page, r#"for url; do links -source "$url"; done"#),
    Client::new("ELinks", Page, r#"for url; do elinks -source "$url"; done"#),
    Client::new("w3m", Page, r#"for url; do w3m -dump_source "$url" </dev/null; done"#),
    Client::new(
        "git",
        Text("is this a git repository?", "The requested URL returned error: 403"),
        r#"for url; do git ls-remote "$url"; done"#,
    ),
    Client::new(
        "openssl s_client",
        Status,
        r#"for url; do case $url in https:*)
            printf 'GET /%s HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n' \
                "${url#*example/}" |
                openssl s_client -connect site.example:443 -servername site.example -quiet \
                    -ign_eof -verify_return_error -verify_hostname site.example 2>&1
        esac; done"#,
    )
    .but(HTTPS, HTTPS),
    Client::new(
        "+ several programs of a shell",
        Text("the page\nthe page", "\"status\": 403"),
        r#"for url; do
            sh -c 'curl -s "$1"; php -r "echo file_get_contents(\$argv[1]);" -- "$1"' sh "$url"
        done"#,
    ),
];

pub const PYTHON: &[Client] = &[
    Client::new("Python urllib", Status, r#"$PYTHON $PROGRAMS/fetch_urllib.py "$@""#),
    Client::new("Python http.client", Status, r#"$PYTHON $PROGRAMS/fetch_http_client.py "$@""#),
    Client::new(
        "Python urllib3",
        Status,
        r#"$PYTHON $PROGRAMS/fetch_urllib3.py --as-it-comes "$@""#,
    ),
    Client::new("Python requests", Status, r#"$PYTHON $PROGRAMS/fetch_requests.py "$@""#)
        .but(HTTP, BOTH),
    Client::new("Python httpx", Status, r#"$PYTHON $PROGRAMS/fetch_httpx.py "$@""#).but(HTTP, BOTH),
    Client::new(
        "Python aiohttp",
        Status,
        r#"$PYTHON $PROGRAMS/fetch_aiohttp.py --as-it-comes "$@""#,
    ),
    Client::new("Python httplib2", Status, r#"$PYTHON $PROGRAMS/fetch_httplib2.py "$@""#)
        .but(HTTP, BOTH),
    Client::new("Python mechanize", Status, r#"$PYTHON $PROGRAMS/fetch_mechanize.py "$@""#),
    Client::new(
        "Python pycurl",
        Status,
        r#"/usr/bin/python3 $PROGRAMS/fetch_pycurl.py --as-it-comes "$@""#,
    ),
    Client::new("Python tornado", Status, r#"$PYTHON $PROGRAMS/fetch_tornado.py "$@""#),
    Client::new(
        "Scrapy",
        Status,
        r#"$PYTHON -m scrapy runspider $PROGRAMS/spider.py --loglevel=ERROR -s RETRY_ENABLED=False \
            -s DOWNLOAD_VERIFY_CERTIFICATES=True -s TELNETCONSOLE_ENABLED=False -s "SITE=$*""#,
    ),
];

pub const NODE: &[Client] = &[
    Client::new("Node fetch", Status, r#"$NODE $PROGRAMS/fetch.mjs "$@""#).but(HTTP, BOTH),
    Client::new("Node http and https", Status, r#"$NODE $PROGRAMS/http.mjs "$@""#).but(HTTP, BOTH),
    Client::new("undici", Status, r#"$NODE $PROGRAMS/undici_env.mjs --as-it-comes "$@""#)
        .but(HTTP, BOTH),
    Client::new("axios", Status, r#"$NODE $PROGRAMS/axios.mjs "$@""#).but(HTTP, BOTH),
    Client::new("got", Status, r#"$NODE $PROGRAMS/got.mjs "$@""#).but(HTTP, BOTH),
    Client::new("node-fetch", Status, r#"$NODE $PROGRAMS/node_fetch.mjs "$@""#).but(HTTP, BOTH),
    Client::new("ky", Status, r#"$NODE $PROGRAMS/ky.mjs "$@""#).but(HTTP, BOTH),
    Client::new("superagent", Status, r#"$NODE $PROGRAMS/superagent.mjs --as-it-comes "$@""#)
        .but(HTTP, BOTH),
    Client::new("needle", Status, r#"env -u NODE_USE_ENV_PROXY $NODE $PROGRAMS/needle.mjs "$@""#)
        .but(HTTP, BOTH),
    Client::new(
        "Crawlee `HttpCrawler`",
        Status,
        r#"env -u NODE_USE_ENV_PROXY $NODE $PROGRAMS/crawlee.mjs --as-it-comes "$@""#,
    ),
    Client::new(
        "npm",
        Text("invalid json", "403"),
        r#"for url; do npm view page version --registry="$url" --fetch-retries=0; done"#,
    ),
];

pub const SCRIPTS: &[Client] = &[
    Client::new("Perl LWP", Status, r#"perl $PROGRAMS/lwp.pl "$@""#),
    Client::new("Perl HTTP::Tiny", Status, r#"perl $PROGRAMS/http_tiny.pl "$@""#),
    Client::new("Perl Mojo::UserAgent", Status, r#"perl $PROGRAMS/mojo.pl "$@""#),
    Client::new("PHP streams", Status, r#"php $PROGRAMS/streams.php "$@""#),
    Client::new(
        "+ PHP streams with a context of their own",
        Status,
        r#"php $PROGRAMS/streams.php --own-context "$@""#,
    ),
    Client::new("PHP curl", Status, r#"php $PROGRAMS/curl.php "$@""#),
    Client::new("Ruby net/http", Status, r#"ruby $PROGRAMS/net_http.rb "$@""#),
    Client::new("Ruby open-uri", Status, r#"ruby $PROGRAMS/open_uri.rb "$@""#),
];

pub const COMPILED: &[Client] = &[
    Client::new("Go net/http", Status, r#"$PROGRAMS/go "$@""#),
    Client::new(
        "+ Go without libc, with a resolver of its own",
        Status,
        r#"$PROGRAMS/go-static "$@""#,
    ),
    Client::new("Java HttpClient", Status, r#"java $PROGRAMS/Client.java "$@""#),
    Client::new("Java HttpURLConnection", Status, r#"java $PROGRAMS/UrlConnection.java "$@""#),
    Client::new(
        "+ a static program (busybox)",
        Text("the page", "403 Disallowed"),
        r#"for url; do busybox wget -O - "$url"; done"#,
    ),
    Client::new("+ a static program with musl", Status, r#"$PROGRAMS/musl "$@""#).but(HTTP, HTTP),
];

pub const BROWSERS: &[Client] = &[
    Client::new(
        "Chromium",
        Text("the page", "Disallow: /private/"),
        r#"for url; do chromium --headless --disable-gpu --no-first-run --dump-dom "$url"; done"#,
    ),
    Client::new("Playwright with Chromium", Status, r#"$NODE $PROGRAMS/chromium.mjs "$@""#),
    Client::new("Puppeteer with Chromium", Status, r#"$NODE $PROGRAMS/puppeteer.mjs "$@""#),
    Client::new("Selenium with Chromium", Status, r#"$PYTHON $PROGRAMS/fetch_selenium.py "$@""#),
    Client::new(
        "Firefox",
        Status,
        r#"cp -r "$DIR/out/profile" .; $NODE $PROGRAMS/firefox.mjs "$PWD/profile" "$@""#,
    ),
];

/// The client whose roots are its own.
pub const OWN_ROOTS: &[Client] = &[Client::new(
    "+ Rust with rustls and webpki-roots",
    Status,
    r#"URLS="$*" "$DIR/own-roots" --ignored --nocapture \
        --exact sealed_clients::own_roots::a_client"#,
)
.but(HTTP, HTTP)];

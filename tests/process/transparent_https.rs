//! HTTPS of crawlers that are led to the proxy by rules of nftables, and that have nothing set but
//! trust in its CA.

use std::fs;

use crate::transparent::run;

const ORIGIN: &str = include_str!("sealed/origin.py");

const SCRIPT: &str = r#"
certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 "$@" 2>/dev/null
}
certificate -subj /CN=origins -keyout "$DIR/ca.key" -out "$DIR/origins.pem"
certificate -subj /CN=site.example -CA "$DIR/origins.pem" -CAkey "$DIR/ca.key" \
    -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:site.example \
    -keyout "$DIR/key.pem" -out "$DIR/origin.pem"
nsenter --target $origin --net python3 "$DIR/origin.py" "$DIR" & server=$!
wait_for curl -s -o /dev/null http://93.184.216.34/
: >"$DIR/served"
"$COURTESY" env >/dev/null
cp "$DIR/state/clients/bundle.pem" "$DIR/bundle.pem"
chmod 755 "$DIR"; chmod 644 "$DIR/bundle.pem"
"$COURTESY" serve --listen 127.0.0.1:3128 --admin off & proxy=$!
"$COURTESY" redirect apply --uid 0
wait_for "$COURTESY" redirect check --uid 0 || exit 1
client() {
    name=$1; shift
    setpriv --reuid=12345 --regid=12345 --clear-groups env -i PATH="$PATH" \
        SSL_CERT_FILE="$DIR/bundle.pem" NODE_EXTRA_CA_CERTS="$DIR/bundle.pem" \
        timeout 30 "$@" | sed "s/^/$name: /"
}
site=https://site.example
client curl curl -s $site/page -o /dev/null -w '%{http_code}\n' --next -s $site/private/x -o /dev/null \
    -w '%{http_code}\n'
client python python3 -c "
import urllib.error, urllib.request
print(urllib.request.urlopen('$site/page').status)
try: urllib.request.urlopen('$site/private/x')
except urllib.error.HTTPError as error: print(error.code)"
client node node -e "
(async () => { for (const path of ['page', 'private/x']) {
    console.log((await fetch('$site/' + path)).status) } })()"
client other curl -s $site/page -H 'Host: other.example' -o /dev/null -w '%{http_code}\n'
client plain python3 -c "
import socket
plain = socket.create_connection(('site.example', 443), 20)
plain.sendall(b'SSH-2.0-OpenSSH_9.2\r\n')
print('closed', plain.recv(1))"
"#;

#[test]
fn https_of_redirected_crawlers_is_intercepted_by_trust_alone() {
    let settings = |dir: &std::path::Path| {
        fs::write(dir.join("origin.py"), ORIGIN).expect("a file");
        format!("extra_roots = [{:?}]\n", dir.join("origins.pem").display().to_string())
    };
    let Some((said, place)) = run(SCRIPT, settings) else { return };
    for client in ["curl", "python", "node"] {
        let prefix = format!("{client}: ");
        let lines: Vec<_> = said.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
        assert_eq!(lines, ["200", "403"], "{client}:\n{said}");
    }
    for expected in ["other: 400", "plain: closed b''"] {
        assert!(said.lines().any(|line| line == expected), "{expected} is not in:\n{said}");
    }
    let served = fs::read_to_string(place.path().join("served")).expect("what was served");
    let mut served: Vec<_> = served.lines().collect();
    served.sort_unstable();
    assert_eq!(served, ["/page via", "/page via", "/page via", "/robots.txt"]);
    let log = place.log();
    let reasons: Vec<_> = log.events("denied").iter().map(|it| it["reason"].clone()).collect();
    assert_eq!(
        reasons,
        ["disallow_rule", "disallow_rule", "disallow_rule", "tunnel_not_http"],
        "{said}"
    );
}

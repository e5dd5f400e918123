//! HTTPS of crawlers that are led to the proxy by rules of nftables, and that have nothing set but
//! trust in its CA.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::transparent::run;

const ORIGIN: &str = include_str!("sealed/origin.py");

/// Starts an origin by HTTP and HTTPS for both names of the network and their addresses.
pub const SERVE_ORIGIN: &str = r#"
certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 "$@" 2>/dev/null
}
names=DNS:site.example,DNS:six.example,IP:93.184.216.34,IP:2606:2800:220:1::34
certificate -subj /CN=origins -keyout "$DIR/ca.key" -out "$DIR/origins.pem"
certificate -subj /CN=site.example -CA "$DIR/origins.pem" -CAkey "$DIR/ca.key" \
    -addext basicConstraints=critical,CA:FALSE -addext "subjectAltName=$names" \
    -keyout "$DIR/key.pem" -out "$DIR/origin.pem"
nsenter --target $origin --net python3 "$DIR/origin.py" "$DIR" :: & server=$!
wait_for curl -s -o /dev/null http://93.184.216.34/
: >"$DIR/served"
"#;

const SCRIPT: &str = r#"
"$COURTESY" env >/dev/null
trust="$DIR/state/clients"; cp "$trust/bundle.pem" "$trust/ca.pem" "$DIR"
chmod 755 "$DIR"; chmod 644 "$DIR"/bundle.pem "$DIR"/ca.pem
"$COURTESY" serve --listen 127.0.0.1:3128 --admin off & proxy=$!
"$COURTESY" redirect apply --uid 0
wait_for "$COURTESY" redirect check --uid 0 || exit 1
mkdir "$DIR/home"; chown 12345:12345 "$DIR/home"
client() {
    name=$1; shift
    setpriv --reuid=12345 --regid=12345 --clear-groups env -i PATH="$PATH" HOME="$DIR/home" \
        SSL_CERT_FILE="$DIR/bundle.pem" NODE_EXTRA_CA_CERTS="$DIR/bundle.pem" \
        timeout 60 "$@" 2>/dev/null | sed "s/^/$name: /"
}
site=https://site.example
curl_twice() {
    client $1 curl -s $2/page/$1 -o /dev/null -w '%{http_code}\n' --next \
        -s $2/private/$1 -o /dev/null -w '%{http_code}\n'
}
curl_twice curl $site
curl_twice six https://six.example
# By addresses, which TLS does not name (RFC 6066 section 3).
curl_twice address https://93.184.216.34
curl_twice address6 'https://[2606:2800:220:1::34]'
client python python3 -c "
import urllib.error, urllib.request
print(urllib.request.urlopen('$site/page/python').status)
try: urllib.request.urlopen('$site/private/python')
except urllib.error.HTTPError as error: print(error.code)"
client node node -e "
(async () => { for (const path of ['page', 'private']) {
    console.log((await fetch('$site/' + path + '/node')).status) } })()"
client other curl -s $site/page -H 'Host: other.example' -o /dev/null -w '%{http_code}\n'
client plain python3 -c "
import socket
plain = socket.create_connection(('site.example', 443), 20)
plain.sendall(b'SSH-2.0-OpenSSH_9.2\r\n')
print('closed', plain.recv(1))"
client trust mkdir -p "$DIR/home/.pki/nssdb"
client trust certutil -d "sql:$DIR/home/.pki/nssdb" -N --empty-password
client trust certutil -d "sql:$DIR/home/.pki/nssdb" -A -n courtesy -t C,, -i "$DIR/ca.pem"
for path in page private; do
    client chromium chromium --headless --disable-gpu --no-first-run \
        --disable-background-networking --dump-dom $site/$path/chromium
done
"#;

/// The settings of a proxy that trusts the certificate of that origin, the program of which is made.
pub fn trusting_origin(dir: &Path) -> String {
    fs::write(dir.join("origin.py"), ORIGIN).expect("a file");
    format!("extra_roots = [{:?}]\n", dir.join("origins.pem").display().to_string())
}

#[test]
fn https_of_redirected_crawlers_is_intercepted_by_trust_alone() {
    let script = [SERVE_ORIGIN, SCRIPT].concat();
    let Some((said, place)) = run(&script, trusting_origin) else { return };
    let of = |client: &str| {
        let prefix = format!("{client}: ");
        said.lines().filter_map(|line| line.strip_prefix(&prefix)).collect::<Vec<_>>()
    };
    let by_status = ["curl", "six", "address", "address6", "python", "node"];
    for client in by_status {
        assert_eq!(of(client), ["200", "403"], "{client}:\n{said}");
    }
    let chromium = of("chromium").concat();
    assert!(chromium.contains("the page") && chromium.contains("disallow_rule"), "{said}");
    for expected in ["other: 400", "plain: closed b''"] {
        assert!(said.lines().any(|line| line == expected), "{expected} is not in:\n{said}");
    }
    let served = fs::read_to_string(place.path().join("served")).expect("what was served");
    let pages: BTreeSet<_> = served.lines().filter(|line| line.starts_with("/p")).collect();
    let clients = by_status.into_iter().chain(["chromium"]);
    let expected: Vec<_> = clients.clone().map(|client| format!("/page/{client} via")).collect();
    assert_eq!(pages, expected.iter().map(String::as_str).collect(), "{said}");
    let log = place.log();
    let records = log.events("denied");
    let urls: BTreeSet<_> = records.iter().filter_map(|it| it["url"].as_str()).collect();
    for client in clients {
        let host = match client {
            "six" => "six.example",
            "address" => "93.184.216.34",
            "address6" => "[2606:2800:220:1::34]",
            _ => "site.example",
        };
        let url = format!("https://{host}/private/{client}");
        assert!(urls.contains(url.as_str()), "{url} is not in {urls:#?}\n{said}");
    }
    let other = records.iter().filter(|it| it["reason"] == "tunnel_not_http").count();
    assert_eq!(other, 1, "{said}");
}

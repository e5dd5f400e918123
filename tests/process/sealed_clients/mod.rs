//! The clients of `docs/guide/clients.md` in sealed runs, once without one variable and once with
//! all: by HTTP and HTTPS each gets the allowed page, and not the other, of which there is a record.
//! Nothing else leaves the machine: every request that the origin sees has come by the proxy, and a
//! counter of packets sees none to another address or port.

mod client;
mod guide;
mod own_roots;
mod soak;
mod table;

use std::collections::BTreeSet;
use std::fs;

use crate::clients::support::{node, python};
use crate::sealed::{Ended, ORDINARY, world};
use client::Client;

const PREPARE: &str = include_str!("prepare.sh");
const TWICE: &str = include_str!("twice.sh");

/// What the scripts read, by names in the directory of the world.
const FILES: [(&str, &str); 3] = [
    ("each.sh", include_str!("each.sh")),
    ("names.py", include_str!("names.py")),
    ("programs.sh", include_str!("programs.sh")),
];

/// Runs `script` as root in a prepared world, with these variables of a shell.
fn in_world(variables: &str, script: &str) -> Ended {
    python("ssl");
    node();
    let user = if rustix::process::geteuid().is_root() { ORDINARY } else { 0 };
    let own = std::env::current_exe().expect("the path of this program");
    let files: String = FILES.iter().map(|(name, text)| file(name, text)).collect();
    let (root, cache) = (env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"));
    let own = own.display();
    let paths = format!("export ROOT='{root}' OWN_ROOTS='{own}' GOCACHE='{cache}/go'");
    world(0, &format!("{paths} CLIENT={user}\nPREPARE=\n{variables}\n{files}{PREPARE}{script}"))
}

/// A file in the directory of the world, in words of a shell.
fn file(name: &str, text: &str) -> String {
    format!("cat >\"$DIR/{name}\" <<'EOF'\n{text}\nEOF\n")
}

/// What two sealed runs of `clients` say, after the lines of shell `prepare` and `trust`.
fn run(clients: &[Client], prepare: &str, trust: &str) -> Ended {
    let commands = clients.iter().map(|it| file(&format!("clients/{}", it.name()), it.command));
    let commands: String = commands.collect();
    let variables =
        format!("PREPARE='{prepare}' TRUST='{trust}'\nmkdir \"$DIR/clients\"\n{commands}");
    in_world(&variables, TWICE)
}

/// Runs `clients`, and looks at what they show, what the origin saw, what was recorded, and what
/// else left.
#[track_caller]
fn assert_sealed(clients: &[Client], prepare: &str, trust: &str) -> Ended {
    let ended = run(clients, prepare, trust);
    ended.has("without variables: 0");
    ended.has("with variables: 0");
    assert!(ended.said.contains("packets 0 bytes 0"), "other packets left: {}", ended.said);
    let (mut pages, mut denials) = (BTreeSet::new(), BTreeSet::new());
    for client in clients {
        for (pass, schemes) in [("without", client.without), ("with", client.with)] {
            let name = client.name();
            client.assert_shown(&ended.place.path().join("out").join(pass).join(&name), schemes);
            for scheme in schemes {
                pages.insert(format!("/page/{name}/{pass}/{scheme}"));
                denials.insert(format!("{scheme}://site.example/private/{name}/{pass}/{scheme}"));
            }
        }
    }
    assert_same(&served(&ended), &pages);
    let urls = ended.records("denied");
    let urls = urls.iter().filter_map(|it| it["url"].as_str());
    let urls = urls.filter(|url| url.contains("//site.example/")).map(|url| cut(url, 7));
    assert_same(&urls.collect(), &denials);
    ended
}

#[track_caller]
fn assert_same(found: &BTreeSet<String>, expected: &BTreeSet<String>) {
    let differences: Vec<_> = found.symmetric_difference(expected).collect();
    assert!(differences.is_empty(), "{differences:#?}");
}

/// The same, of clients without requests of their own: no name has been asked for but that of the
/// site.
#[track_caller]
fn assert_quiet(clients: &[Client], prepare: &str) {
    let ended = assert_sealed(clients, prepare, "");
    let asked = fs::read_to_string(ended.place.path().join("asked")).expect("names");
    let asked: BTreeSet<_> = asked.lines().collect();
    assert_eq!(asked, BTreeSet::from(["\u{4}site\u{7}example\0"]));
}

/// The pages that the origin served, each by the proxy.
#[track_caller]
fn served(ended: &Ended) -> BTreeSet<String> {
    let requests = ended.served.iter().filter(|line| *line != "/robots.txt");
    let paths = requests
        .map(|line| line.strip_suffix(" via").unwrap_or_else(|| panic!("{line} has gone around")));
    // Browsers have requests of their own.
    paths.filter(|path| path.starts_with("/p")).map(|path| cut(path, 5)).collect()
}

/// The first `parts` of a path: git and npm add their own.
fn cut(path: &str, parts: usize) -> String {
    path.split('/').take(parts).collect::<Vec<_>>().join("/")
}

#[test]
#[ignore = "nightly"]
fn programs_of_the_terminal() {
    assert_quiet(table::TERMINAL, "");
}

#[test]
#[ignore = "nightly"]
fn clients_of_python() {
    assert_quiet(table::PYTHON, "");
}

#[test]
#[ignore = "nightly"]
fn clients_of_node() {
    assert_quiet(table::NODE, "");
}

#[test]
#[ignore = "nightly"]
fn clients_of_perl_php_and_ruby() {
    assert_quiet(table::SCRIPTS, "");
}

/// With one that has no C library, and one that has another.
#[test]
#[ignore = "nightly"]
fn compiled_clients() {
    let build = r#"
        export GO111MODULE=off HOME=/nonexistent
        go build -o "$programs/go" "$programs/client.go"
        CGO_ENABLED=0 go build -tags netgo -o "$programs/go-static" "$programs/client.go"
        musl-gcc -static -Wall -Werror -o "$programs/musl" "$programs/get.c""#;
    assert_quiet(table::COMPILED, build);
}

/// Chromium with its sandbox, and drivers of browsers. Trust is given to them beforehand.
#[test]
#[ignore = "nightly"]
fn browsers() {
    let trust = r#"
        as_client "$COURTESY" ca export >"$DIR/ca.pem"
        for database in "$HOME/.pki/nssdb" "$DIR/out/profile"; do
            as_client mkdir -p "$database"
            as_client certutil -d "sql:$database" -A -n courtesy -t C,, -i "$DIR/ca.pem"
        done"#;
    assert_sealed(table::BROWSERS, "", trust);
}

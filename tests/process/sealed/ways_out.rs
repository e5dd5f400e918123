//! What gets out of a sealed run: nothing but what is named.

use super::{users, world};

#[test]
fn nothing_gets_out() {
    let script = r#"
        exec 7<>"$DIR/tmp/file"
        python3 -c '
import os, socket
stream = socket.create_connection(("93.184.216.34", 80))
os.dup2(stream.fileno(), 7, inheritable=True)
os.dup2(os.open("/etc", os.O_PATH), 8, inheritable=True)
os.dup2(os.open("/proc/self/ns/net", os.O_RDONLY), 9, inheritable=True)
here = socket.socket(socket.AF_UNIX)
here.bind("here")
os.dup2(os.open("here", os.O_PATH), 6, inheritable=True)
os.dup2(os.open("/etc/passwd", os.O_RDONLY), 5, inheritable=True)
os.execvp("sh", ["sh", "-c", "\"$COURTESY\" run --sealed -- python3 \"$DIR/escapes.py\""])'"#;
    for user in users() {
        let ended = world(user, script);
        for line in [
            "raw socket: EPERM",
            "other port: ECONNREFUSED",
            "other port by name: ECONNREFUSED",
            "other port of IPv6: ECONNREFUSED",
            "name server: ECONNREFUSED",
            "name server by TCP: ECONNREFUSED",
            "HTTP/3: ECONNREFUSED",
            "UDP of IPv6: ECONNREFUSED",
            "private address: 403",
            "private address of IPv6: 403",
            "link-local address: 403",
            "virtual address without a name: 403",
            "abstract socket: ECONNREFUSED",
            "network of the first process: EACCES",
            "trace of the first process: EPERM",
            "memory of the first process: EACCES",
            "files of the first process: EACCES",
            "descriptors of the first process: EACCES",
            "a descriptor of the first process: EPERM",
            "end of the first process: it goes on",
            "processes outside: none",
            "inherited socket: closed",
            "inherited directory: closed",
            "inherited namespace: closed",
            "inherited path of a socket: closed",
            "inherited file: THERE",
            "mount: refused",
            "mount of what is covered: refused",
            "interface: EPERM",
            "another interface: EPERM",
            "network by a program: refused",
            "new network: EPERM",
            "host name: EPERM",
        ] {
            ended.has(line);
        }
        let told = ended.said.lines().find(|line| line.contains("refused, as not served:"));
        let told = told.unwrap_or_else(|| panic!("{}", ended.said));
        for destination in [
            "93.184.216.34:22 (1)",
            "8.8.8.8:53 (1)",
            "8.8.8.8:53/udp (1)",
            "[2606:2800::1]:22 (1)",
        ] {
            assert!(told.contains(destination), "{destination}: {told}");
        }
        assert_eq!(ended.served, [""; 0], "nothing but refusals");
    }
}

#[test]
fn a_service_that_is_named_is_reached_and_no_other() {
    let ask = r#"python3 -c '
import socket
for host in ["site.example", "other.example"]:
    with socket.create_connection((host, 5432), 5) as stream:
        try:
            stream.sendall(b"echo")
            print(host, stream.recv(9))
        except ConnectionError: print(host, "closed")'"#;
    let script = format!(
        r#""$COURTESY" run --sealed --reach site.example:5432 -- {ask}
        "$COURTESY" audit report --run last | grep -c "1 connection tunnelled to"
        "$COURTESY" run --sealed --reach site.example:80 -- true; echo "ended $?""#
    );
    let ended = world(0, &script);
    ended.has("site.example b'echo'");
    let records = ended.records("tunnelled");
    let [record] = &records[..] else { panic!("{records:?}") };
    let names = ["reason", "url", "origin", "method"].map(|name| record[name].as_str());
    let expected = ["reach", "site.example:5432", "tcp://site.example:5432", "CONNECT"];
    assert_eq!(names, expected.map(Some), "{record}");
    ended.count("1", 1);
    let is_closed = |line: &str| line == "other.example closed" || line == "other.example b''";
    assert!(ended.said.lines().any(is_closed), "{}", ended.said);
    assert!(ended.said.contains("93.184.216.35:5432 (1)"), "{}", ended.said);
    assert!(ended.said.contains("1 connection relayed (--reach)"), "{}", ended.said);
    ended.has("ended 2");
}

#[test]
fn a_socket_that_is_named_is_relayed_and_recorded() {
    let script = r#"
        python3 -c '
import os, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("agent")
listener.listen()
if os.fork() == 0:
    while True:
        client, _ = listener.accept()
        client.sendall(client.recv(100) or b"?")
        client.close()'
        export SSH_AUTH_SOCK="$PWD/agent"
        for flags in "" "--reach $PWD/agent" "--keep-socket $PWD/agent"; do
            echo "with $flags" | sed "s|$PWD/||"
            "$COURTESY" run --summary none --sealed $flags -- python3 -c '
import os, socket
stream = socket.socket(socket.AF_UNIX)
try:
    stream.connect(os.environ["SSH_AUTH_SOCK"])
    stream.sendall(b"echo")
    print("echoed", stream.recv(100).decode())
except OSError as error: print(error.strerror)'
        done
        "$COURTESY" run --sealed --reach "$PWD/none" -- true; echo "none $?"
        pkill -f "[l]istener.bind""#;
    for user in users() {
        let ended = world(user, script);
        let after = |line: &str| {
            let mut lines = ended.said.lines().skip_while(|it| *it != line);
            lines.nth(1).unwrap_or_else(|| panic!("{line}: {}", ended.said)).to_owned()
        };
        assert_eq!(after("with "), "Connection refused");
        assert_eq!(after("with --reach agent"), "echoed echo");
        assert_eq!(after("with --keep-socket agent"), "echoed echo");
        ended.has("none 2");
        let records = ended.records("tunnelled");
        let [record] = &records[..] else { panic!("{records:?}") };
        assert_eq!(record["reason"], "reach");
        let url = record["url"].as_str().expect("a text");
        assert!(url.starts_with("unix:/") && url.ends_with("/tmp/agent"), "{url}");
    }
}

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
os.dup2(os.open("/proc/self/mem", os.O_RDWR), 10, inheritable=True)
os.dup2(os.open("/proc/sys/kernel/core_pattern", os.O_RDONLY), 11, inheritable=True)
os.execvp("sh", ["sh", "-c", "\"$COURTESY\" run --sealed -- python3 \"$DIR/escapes.py\" 0</proc/self/mem"])'"#;
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
            "inherited memory of a process: closed",
            "inherited setting of the kernel: closed",
            "standard input that is memory: empty",
            "settings of the kernel: refused",
            "settings of devices: refused",
            "log of the kernel: refused",
            "keys of the kernel: refused",
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
        assert!(
            ended.said.contains("a service of these is reached with --reach "),
            "{}",
            ended.said
        );
        assert_eq!(ended.served, [""; 0], "nothing but refusals");
    }
}

#[test]
fn sockets_of_services_are_covered_also_those_that_come_later() {
    let script = r#"
        mkdir -p "$HOME/.ssh" "$TMPDIR/tmux-7"
        echo "Host *" >"$HOME/.ssh/config"
        set -- /run/docker.sock /run/late.sock /run/podman/late.sock "/run/user/$AS/bus" "/run/user/$AS/late/bus" \
            /run/libvirt/libvirt-sock /run/late/daemon.sock "$HOME/.gnupg/S.gpg-agent" "$HOME/.ssh/cm-late" \
            "$HOME/.ssh/masters/site" "$HOME/.docker/run/docker.sock" "$TMPDIR/tmux-7/late" "$TMPDIR/ssh-7/agent.7" \
            "$TMPDIR/.X11-unix/X7" "$TMPDIR/podman/engine.sock" "$TMPDIR/buses/second" "$HOME/lxd/unix.socket"
        export CONTAINER_HOST="unix://$TMPDIR/podman/engine.sock" LXD_DIR="$HOME/lxd" \
            DBUS_SESSION_BUS_ADDRESS="unix:path=/none,guid=7;unix:path=$TMPDIR/buses/second"
        python3 "$DIR/services.py" serve "$DIR/tmp" "$@" & services=$!
        while ! [ -e "$DIR/tmp/ready" ]; do sleep 0.01; done
        "$COURTESY" run --summary none --sealed -- python3 "$DIR/services.py" try "$DIR/tmp" "$@"
        echo "ended $?"
        wait $services
        rm "$DIR/tmp/ready"
        python3 "$DIR/services.py" serve "$DIR/tmp" /run/docker.sock & services=$!
        while ! [ -e "$DIR/tmp/ready" ]; do sleep 0.01; done
        "$COURTESY" run --summary none --sealed --keep-socket /run/docker.sock -- python3 -c '
import socket
socket.socket(socket.AF_UNIX).connect("/run/docker.sock")
print("kept")'
        "$COURTESY" run --summary none --sealed --reach /run/docker.sock -- python3 -c '
import socket
socket.socket(socket.AF_UNIX).connect("/run/docker.sock")
print("relayed")'
        "$COURTESY" run --summary none --sealed -- sh -c 'cat /run/secrets/password "$HOME/.ssh/config"'
        cd /run
        "$COURTESY" run --summary none --sealed -- python3 -c '
import socket
try: socket.socket(socket.AF_UNIX).connect("docker.sock")
except OSError: print("covered from within")'
        kill $services"#;
    for user in users() {
        let ended = world(user, script);
        ended.has("ended 0");
        let tried: Vec<_> = ended.said.lines().filter(|it| it.ends_with(", covered")).collect();
        assert_eq!(tried.len(), 17, "{}", ended.said);
        assert!(!ended.said.contains("REACHED"), "{}", ended.said);
        for line in ["kept", "relayed", "secret", "Host *", "covered from within"] {
            ended.has(line);
        }
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

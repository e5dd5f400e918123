//! How a run ends: as its command, with all processes, and without what it needs.

use super::{users, world};

#[test]
fn all_processes_of_a_command_end_with_it() {
    let script = r#"
        run() { "$COURTESY" run --summary none --sealed -- "$@"; echo "code $?"; }
        left() { if pgrep -x sleep >/dev/null; then ps -ef; echo "LEFT after $1"; fi; }
        run sh -c 'echo "number $$ of $PPID"; sleep 9999 & setsid sh -c "sleep 9999 & sleep 9999 &"; exit 4'
        left "a command that goes on"
        run sh -c '(sleep 0.05 &); sleep 0.5; ps -eo stat | grep -c "^Z" >zombies; echo "$(cat zombies) zombies"'
        "$COURTESY" run --summary none --sealed -- sh -c '
            trap "echo terminated; exit 5" TERM; sleep 9999 & echo >begun; wait' & proxy=$!
        until [ -e begun ]; do sleep 0.05; done; rm begun
        kill $proxy; wait $proxy; echo "code $?"; left "a signal"
        begin() {
            "$COURTESY" run --summary none --sealed -- sh -c '
                setsid sleep 9999 & echo >begun; exec sleep 9999' & proxy=$!
            until [ -e begun ]; do sleep 0.05; done; rm begun
        }
        begin; kill -KILL $(pgrep -P $proxy); wait $proxy; echo "its supervisor $?"
        while pgrep -x sleep >/dev/null; do sleep 0.05; done; echo "none is left"
        begin; kill -KILL $proxy; wait $proxy
        while pgrep -x sleep >/dev/null; do sleep 0.05; done; echo "none is left"
        ls | grep -c "^courtesy-sealed-"; run true; ls | grep -c "^courtesy-sealed-""#;
    for user in users() {
        let ended = world(user, script);
        for line in ["number 2 of 1", "code 4", "0 zombies", "terminated", "code 5"] {
            ended.has(line);
        }
        ended.has("its supervisor 137");
        ended.count("none is left", 2);
        assert!(!ended.said.contains("LEFT"), "{}", ended.said);
        let counts: Vec<_> = ended.said.lines().filter(|it| ["0", "1"].contains(it)).collect();
        assert_eq!(counts, ["1", "0"], "a directory until the next run: {}", ended.said);
    }
}

/// Killed as it makes namespaces, mounts, rights, the network inside, and leaves its group.
#[test]
fn a_process_that_is_killed_at_any_step_leaves_nothing() {
    let script = r#"
        for call in unshare mount capset listen setpgid; do
            python3 "$DIR/forbid.py" $call=kill "$COURTESY" run --summary none --sealed -- \
                sh -c "sleep 9999" 2>said
            echo "$call $? $(wc -l <said)"
            while pgrep -x sleep || pgrep -f "seal --paren[t]"; do sleep 0.05; done
            ls | grep "^courtesy-"
        done
        echo "all tried"; cat said"#;
    for user in users() {
        let ended = world(user, script);
        ended.has("all tried");
        for call in ["unshare", "mount", "capset", "listen"] {
            ended.has(&format!("{call} 69 1"));
        }
        // By then the command may have been started.
        let codes = ["setpgid 69 1", "setpgid 159 1"];
        assert!(ended.said.lines().any(|line| codes.contains(&line)), "{}", ended.said);
        assert!(!ended.said.contains("courtesy-sealed-"), "{}", ended.said);
    }
}

#[test]
fn without_proc_a_run_goes_on_without_a_namespace_of_processes() {
    let script = r#"
        unshare --map-root-user --mount sh -c 'mount -t tmpfs none /proc/irq
            "$COURTESY" run --verbose --sealed -- sh -c "echo number \$\$; curl -s http://site.example/page"
            echo "code $?"
            "$COURTESY" doctor | grep -A1 "sealed runs"'"#;
    let ended = world(0, script);
    ended.has("the page");
    ended.has("code 0");
    ended.count("number 2", 0);
    assert!(ended.said.contains("no namespace of processes (/proc: "), "{}", ended.said);
    assert!(ended.said.contains("/proc cannot be mounted"), "{}", ended.said);
}

#[test]
fn the_terminal_is_that_of_the_command() {
    for user in users() {
        let ended = world(user, r#"python3 "$DIR/terminal.py""#);
        for line in [
            "interrupted once",
            "stopped",
            "continued",
            "resized",
            "a shell inside has jobs of its own",
        ] {
            ended.has(line);
        }
    }
}

#[test]
fn each_reason_why_there_can_be_none_has_its_sentence() {
    let script = r#"
        unshare --map-root-user --mount sh -c '
            try() { python3 "$DIR/forbid.py" unshare=refuse "$COURTESY" run --sealed -- echo UNSEALED; echo "$1 $?"; }
            try seccomp
            mount -t tmpfs none /proc/sys/kernel
            echo 1 >/proc/sys/kernel/apparmor_restrict_unprivileged_userns; try apparmor
            echo 0 >/proc/sys/kernel/unprivileged_userns_clone; try clone
            python3 "$DIR/forbid.py" unshare=refuse "$COURTESY" doctor | grep -A2 "sealed runs"'"#;
    let ended = world(0, script);
    for line in ["seccomp 69", "apparmor 69", "clone 69"] {
        ended.has(line);
    }
    for (sentence, count) in [
        ("a seccomp filter refuses it", 1),
        ("AppArmor restricts user namespaces", 1),
        ("kernel.unprivileged_userns_clone is 0", 2),
    ] {
        assert_eq!(ended.said.matches(sentence).count(), count, "{sentence}: {}", ended.said);
    }
    assert!(!ended.said.lines().any(|line| line == "UNSEALED"), "{}", ended.said);
}

#[test]
fn a_sealed_run_exits_as_its_command_does() {
    let script = r#"
        run() { "$COURTESY" run --summary none --sealed -- "$@"; echo "$1 $?"; }
        run true; run false; run /none; run /etc/passwd
        run sh -c 'exit 7'; run sh -c 'kill -TERM $$'
        echo input | "$COURTESY" run --summary none --sealed -- cat
        run sh -c 'exit 3' <&-
        unshare --map-root-user sh -c 'echo 0 >/proc/sys/user/max_user_namespaces
            "$COURTESY" run --sealed -- echo UNSEALED; echo "without $?"'"#;
    for user in users() {
        let ended = world(user, script);
        for line in ["true 0", "false 1", "/none 127", "/etc/passwd 126", "sh 7", "sh 143", "sh 3"]
        {
            ended.has(line);
        }
        ended.has("input");
        ended.has("without 69");
        assert!(ended.said.contains("user.max_user_namespaces is 0"), "{}", ended.said);
        assert!(!ended.said.lines().any(|line| line == "UNSEALED"), "{}", ended.said);
    }
}

#[test]
fn runs_leave_nothing_behind() {
    let script = r#"
        # Other tests have sealed runs, too: those of this one have its directory in their environment.
        export OF_TEST=$DIR
        own() { grep -lzx "OF_TEST=$DIR" /proc/[0-9]*/environ 2>/dev/null >"$DIR/state/own"
            wc -l <"$DIR/state/own"; }
        left() { ls "$DIR/tmp"; ls /proc/self/fd | wc -l; wc -l </proc/self/mountinfo; own; }
        left >"$DIR/state/before"
        for run in $(seq $RUNS); do
            "$COURTESY" run --summary none --sealed -- curl -s http://site.example/page
        done
        for run in $(seq 20); do
            "$COURTESY" run --summary none --sealed -- curl -s http://site.example/page &
        done
        wait
        "$COURTESY" run --summary none --sealed -- sleep 9999 & proxy=$!
        until pgrep -x sleep >/dev/null; do sleep 0.05; done
        echo "while it runs $(own)"; command=$(pgrep -x sleep); kill -KILL $proxy; wait $proxy
        while [ -d /proc/$command ]; do sleep 0.05; done; echo "it ends with its proxy"
        "$COURTESY" run --summary none -- true
        left >"$DIR/state/after"; diff "$DIR/state/before" "$DIR/state/after" && echo same"#;
    let runs = runs();
    for user in users() {
        let ended = world(user, &format!("RUNS={runs}\n{script}"));
        ended.count("the page", runs + 20);
        ended.has("it ends with its proxy");
        let own =
            ended.said.lines().find_map(|line| line.strip_prefix("while it runs ")?.parse().ok());
        assert!(own > Some(2), "the look at them, the proxy, the command: {}", ended.said);
        ended.has("same");
        assert_eq!(ended.code, Some(0), "{}", ended.said);
    }
}

/// Runs one after another.
#[expect(clippy::disallowed_methods, reason = "a developer asks for a long test by it")]
fn runs() -> usize {
    std::env::var("COURTESY_TEST_RUNS").map_or(20, |runs| runs.parse().expect("a number"))
}

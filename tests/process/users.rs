//! `courtesy users` as a shell sees it: what it prints, what stands in the file, and who is refused.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use courtesy::clients::Users;

/// The code, standard output and standard error of the program with this on its standard input.
fn courtesy(file: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_courtesy"));
    command
        .args(arguments)
        .env_clear()
        .env("HOME", "/home/somebody")
        .env("COURTESY__CLIENTS__USERS_FILE", file);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Who refuses the arguments does not read it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn users_are_added_changed_listed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users.toml");
    let shown = file.display();
    let add = ["users", "add", "ada", "--agent", "AdaBot", "--mode", "observe"];
    assert_eq!(
        courtesy(&file, &add, "first\n"),
        (0, format!("added ada in {shown}\n"), String::new())
    );
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let before = Users::load(&file).unwrap();
    assert!(!fs::read_to_string(&file).unwrap().contains("first"));

    let change = ["users", "add", "ada", "--deny-status", "451", "--max-requests", "9"];
    assert_eq!(courtesy(&file, &change, "second\n").1, format!("changed ada in {shown}\n"));
    assert_ne!(
        before.get("ada").unwrap().password,
        Users::load(&file).unwrap().get("ada").unwrap().password
    );
    assert_eq!(courtesy(&file, &["users", "add", "bob"], "third").0, 0);
    let listed = "ada  agent=AdaBot  mode=observe  deny_status=451  max_requests=9\nbob\n";
    assert_eq!(courtesy(&file, &["users", "list"], ""), (0, listed.into(), String::new()));

    assert_eq!(
        courtesy(&file, &["users", "remove", "ada"], "").1,
        format!("removed ada from {shown}\n")
    );
    let gone = format!("there is no user ada in {shown}\n");
    assert_eq!(courtesy(&file, &["users", "remove", "ada"], ""), (1, String::new(), gone));
    assert_eq!(courtesy(&file, &["users", "list"], "").1, "bob\n");
}

#[test]
fn the_configuration_may_be_named_behind_the_subcommand() {
    let dir = tempfile::tempdir().unwrap();
    let (file, config) = (dir.path().join("users.toml"), dir.path().join("courtesy.toml"));
    let list = ["users", "list", "--config", config.to_str().unwrap()];
    fs::write(&config, "[clients]\nusers_fil = \"x\"\n").unwrap();
    let (code, _, said) = courtesy(&file, &list, "");
    assert!(code == 78 && said.contains("courtesy.toml:2: clients.users_fil"), "{code}: {said}");
    fs::write(&config, "").unwrap();
    assert_eq!(courtesy(&file, &["users", "add", "eva", "--config", list[3]], "x\n").0, 0);
    assert_eq!(courtesy(&file, &list, "").1, "eva\n");
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users.toml");
    for (arguments, input, code, said) in [
        (&["users", "add", "a:b"][..], "x\n", 2, "cannot be a user's name"),
        (&["users", "add", "ada"], "\n", 2, "the password is empty"),
        (&["users", "add", "ada", "--deny-status", "200"], "x\n", 2, "a status from 400 to 599"),
        (&["users", "add", "ada", "secret"], "x\n", 2, "unexpected argument"),
        (&["users", "list"], "", 78, "`courtesy users add NAME` creates it"),
        (&["serve", "--listen", "127.0.0.1:0"], "", 78, "`courtesy users add NAME` creates it"),
    ] {
        let (ended, stdout, stderr) = courtesy(&file, arguments, input);
        assert_eq!((ended, stdout.as_str()), (code, ""), "{arguments:?} {stderr}");
        assert!(stderr.contains(said), "{arguments:?} {stderr}");
        assert!(!file.exists());
    }
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    for arguments in
        [&["users", "add", "ada"][..], &["users", "list"], &["serve", "--listen", "127.0.0.1:0"]]
    {
        let (ended, _, stderr) = courtesy(&file, arguments, "x\n");
        assert!(ended == 77 && stderr.contains("chmod 600"), "{arguments:?} {ended} {stderr}");
    }
}

#[test]
fn the_variables_have_the_name_and_the_password() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users.toml");
    let state_dir = dir.path().to_str().unwrap();
    let env = |more: &[&str], input| {
        courtesy(&file, &[&["env", "--state-dir", state_dir], more].concat(), input)
    };
    let (code, stdout, stderr) = env(&["--user", "ada"], "open: sesame\n");
    assert!(
        code == 0 && stderr.starts_with("note: no proxy listens at 127.0.0.1:3128"),
        "{stderr}"
    );
    assert!(
        stdout.contains("http_proxy='http://ada:open%3A%20sesame@127.0.0.1:3128';"),
        "{stdout}"
    );
    let (code, stdout, stderr) = env(&[], "");
    assert!(code == 0 && stdout.contains("http_proxy='http://127.0.0.1:3128';"), "{stdout}");
    assert!(stderr.contains("--user NAME"), "{stderr}");
}

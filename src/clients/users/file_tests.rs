use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::*;
use crate::clients::Password;

fn hash() -> String {
    Hash::of(&Password::new("secret").unwrap()).as_str().to_owned()
}

fn load(text: &str, mode: u32) -> Result<Users, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users.toml");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    let shown =
        |error: UsersError| error.to_string().replace(&format!("{}/", dir.path().display()), "");
    Users::load(&file).map_err(shown)
}

#[test]
fn what_is_written_is_read_again_and_only_its_owner_can() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users.toml");
    assert!(matches!(Users::load(&file), Err(UsersError::Missing(_))));
    let ada = User {
        name: "ada.l".into(),
        password: Hash::parse(&hash()).unwrap(),
        agent: Some("AdaBot".parse().unwrap()),
        mode: Some(Mode::Observe),
        deny_status: Some(StatusCode::NOT_FOUND),
        max_connections: Some(2),
        max_requests: Some(3),
        max_wait: Some(Duration::from_millis(1500)),
        pace_status: Some(StatusCode::SERVICE_UNAVAILABLE),
    };
    let bob = User {
        name: "bob".into(),
        agent: None,
        mode: None,
        deny_status: None,
        max_connections: None,
        max_requests: None,
        max_wait: None,
        pace_status: None,
        ..ada.clone()
    };
    for user in [ada, bob] {
        let mut change = Change::begin(&file).unwrap();
        change.users.put(user);
        let written = change.users.clone();
        change.save().unwrap();
        assert_eq!(Users::load(&file).unwrap(), written);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn a_file_that_cannot_be_used_says_where_and_why_and_quotes_no_hash() {
    let (good, hash) = (format!("[ada]\npassword = \"{}\"\n", hash()), hash());
    assert_eq!(load(&good, 0o600).unwrap().len(), 1);
    for (text, mode, expected) in [
        (good.clone(), 0o640, "users.toml: the password hashes are accessible to others"),
        (good.clone(), 0o604, "run: chmod 600 users.toml"),
        (
            format!("[ada]\npasword = \"{hash}\"\n"),
            0o600,
            "users.toml: line 2: unknown field `pasword`",
        ),
        (
            "[ada]\nmode = \"observe\"\n".into(),
            0o600,
            "users.toml: line 1: missing field `password`",
        ),
        (format!("[ada]\npassword = \"{hash}\n"), 0o600, "users.toml: line 2: "),
        (
            "[ada]\npassword = \"secret\"\n".into(),
            0o600,
            "users.toml: ada.password is not a PHC string",
        ),
        (format!("[\"a b\"]\npassword = \"{hash}\"\n"), 0o600, "cannot be a user's name"),
        (format!("{good}mode = \"watch\"\n"), 0o600, "line 3: \"watch\" is not one of"),
        (format!("{good}deny_status = 200\n"), 0o600, "ada.deny_status must be from 400 to 599"),
        (format!("{good}max_requests = 0\n"), 0o600, "ada.max_requests must be at least 1"),
        (format!("{good}agent = \"A/1\"\n"), 0o600, "ada.agent \"A/1\" is not a product token"),
    ] {
        let said = load(&text, mode).unwrap_err();
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("argon2id$v"), "{said}");
    }
}

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::schema::{Schema, leaves};
use super::*;
use crate::ca::Source;
use crate::types::timestamp::Timestamp;

/// A configuration from a file's text, variables and flags, as a process would have it.
struct Case<'a> {
    file: &'a str,
    variables: &'a [(&'a str, &'a str)],
    flags: Vec<Override>,
}

impl Case<'_> {
    fn load(self) -> Result<Loaded, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("courtesy.toml");
        std::fs::write(&path, self.file).unwrap();
        let home = [("HOME", "/home/user")];
        let variables = home
            .iter()
            .chain(self.variables)
            .map(|(name, value)| (name.to_string(), value.to_string()));
        load(Some(&path), variables, &self.flags).map_err(|refusal| {
            refusal.to_string().replace(&format!("{}/", dir.path().display()), "")
        })
    }
}

#[track_caller]
fn from_file(file: &str) -> Settings {
    Case { file, variables: &[], flags: vec![] }.load().unwrap().settings
}

/// The only diagnostic about a file.
#[track_caller]
fn diagnostic(file: &str) -> String {
    with_variables(file, &[])
}

#[track_caller]
fn with_variables(file: &str, variables: &[(&str, &str)]) -> String {
    let said = Case { file, variables, flags: vec![] }.load().unwrap_err();
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("the configuration cannot be used"));
    let diagnostic = lines.next().unwrap().trim_start().to_owned();
    assert_eq!(lines.next(), None, "{said}");
    diagnostic
}

#[test]
fn nothing_needs_to_be_set() {
    let expected =
        Settings { state_dir: "/home/user/.local/state/courtesy".into(), ..Settings::default() };
    assert_eq!(from_file(""), expected);
}

#[test]
fn what_is_wrong_in_a_file_is_named_with_line_and_remedy() {
    for (file, expected) in [
        (
            "[robots]\nprofil = \"google\"",
            "courtesy.toml:2: robots.profil: there is no such setting; did you mean robots.profile?",
        ),
        (
            "\nprofile = \"google\"",
            "courtesy.toml:2: profile: there is no such setting; did you mean robots.profile?",
        ),
        (
            "fetch_timeout = \"1s\"",
            "courtesy.toml:1: fetch_timeout: there is no such setting; did you mean robots.fetch_timeout?",
        ),
        (
            "[robot]\nmode = \"observe\"",
            "courtesy.toml:1: robot: there is no such setting; did you mean robots?",
        ),
        (
            "[robots]\n\nprofile = \"gogle\"",
            "courtesy.toml:3: robots.profile: \"gogle\" is not one of \"rfc9309\", \"google\", \"google-2019\", \
             \"draft-rep-00\", \"koster-1996\", \"conservative\", \"archival\"; did you mean \"google\"?",
        ),
        (
            "[robots]\nprofile = \"\"",
            "courtesy.toml:2: robots.profile: \"\" is not one of \"rfc9309\", \"google\", \"google-2019\", \
             \"draft-rep-00\", \"koster-1996\", \"conservative\", \"archival\"",
        ),
        (
            "[egress]\nupgrades = [\"websocket\", \"h2c\"]",
            "courtesy.toml:2: egress.upgrades[1]: \"h2c\" carries HTTP requests, which would not be decided on",
        ),
        (
            "[egress]\nupgrades = [\"a b\"]",
            "courtesy.toml:2: egress.upgrades[0]: \"a b\" is no protocol name of Upgrade; write \"websocket\"",
        ),
        (
            "[robots]\nmax_redirects = \"5\"",
            "courtesy.toml:2: robots.max_redirects: expected a whole number, found the text \"5\"",
        ),
        (
            "[robots]\nmax_redirects = 300",
            "courtesy.toml:2: robots.max_redirects: expected a whole number from 0 to 255",
        ),
        (
            "[pace]\nconcurrency = 1.0",
            "courtesy.toml:2: pace.concurrency: expected a whole number, found the number 1",
        ),
        (
            "[pace]\nshared_addresses = [\"cdn\"]",
            "courtesy.toml:2: pace.shared_addresses: \"cdn\" is not an address block; write it as \"10.0.0.0/8\" or \"192.0.2.7\"",
        ),
        (
            "[pace]\naddress_concurrency = 100000",
            "courtesy.toml:2: pace.address_concurrency: 100000 is too many; it takes at most 65536",
        ),
        (
            "[store]\nenabled = 1",
            "courtesy.toml:2: store.enabled: expected true or false, found the number 1",
        ),
        (
            "[robots]\nfetch_timeout = 10",
            "courtesy.toml:2: robots.fetch_timeout: expected a text in quotes, such as \"10s\", found the number 10",
        ),
        (
            "[robots]\nfetch_timeout = \"10\"",
            "courtesy.toml:2: robots.fetch_timeout: \"10\" has no unit; write \"10s\" for seconds, or m, h, d",
        ),
        (
            "[robots]\nfetch_timeout = \"0s\"",
            "courtesy.toml:2: robots.fetch_timeout: must be longer than nothing",
        ),
        (
            "[robots]\nfetch_as = \"client\"",
            "courtesy.toml:2: robots.fetch_as: the field of a client is not sent any more; write \"agent\" or a \
             User-Agent",
        ),
        (
            "[robots]\ncontact = \"example.com (us)\"",
            "courtesy.toml:2: robots.contact: \"example.com (us)\" is no URL for a User-Agent; write one such as \
             \"https://example.com/bot\"",
        ),
        (
            "[robots]\nmax_size = \"5 pounds\"",
            "courtesy.toml:2: robots.max_size: \"5 pounds\" is not a size; write it as \"500KiB\" or \"256MiB\"",
        ),
        (
            "[robots]\nmax_size = \"100KiB\"",
            "courtesy.toml:2: robots.max_size: 100KiB is too little; RFC 9309 §2.5 asks for at least 500KiB",
        ),
        (
            "[limits]\nmax_header_bytes = \"4KiB\"",
            "courtesy.toml:2: limits.max_header_bytes: 4KiB is too little; it takes at least 8KiB",
        ),
        (
            "[audit]\nnode = \" \"",
            "courtesy.toml:2: audit.node: is empty; write a name such as \"crawler-3\", or leave it out for the host's",
        ),
        (
            "[audit]\nnode = \"a\\u001b[2J\"",
            "courtesy.toml:2: audit.node: a node's name has printable characters only",
        ),
        (
            "[audit]\nretain_size = \"64MiB\"",
            "courtesy.toml:2: audit.retain_size: 64MiB is less than audit.rotate_size, 128MiB; nothing would be kept \
             but the file that is being written",
        ),
        (
            "[audit]\nretain_size = \"much\"",
            "courtesy.toml:2: audit.retain_size: \"much\" is not a size; write it as \"500KiB\" or \"256MiB\", or \"unlimited\"",
        ),
        (
            "[audit]\nrotate_size = \"128B\"",
            "courtesy.toml:2: audit.rotate_size: 128B is too little; it takes at least 16KiB",
        ),
        (
            "[store]\nmax_size = \"1KiB\"",
            "courtesy.toml:2: store.max_size: 1KiB is too little; it takes at least 4MiB; \
             store.enabled = false does without",
        ),
        ("robots = 5", "courtesy.toml:1: robots: expected a table, found the number 5"),
        (
            "[listen]\nproxy = \"127.0.0.1:3128\"",
            "courtesy.toml:2: listen.proxy: expected a list of texts, found the text \"127.0.0.1:3128\"",
        ),
        (
            "[listen]\nproxy = []",
            "courtesy.toml:2: listen.proxy: nothing to listen on; give at least one address and port",
        ),
        (
            "[listen]\nproxy = [\"127.0.0.1:0\"]",
            "courtesy.toml:2: listen.proxy: 127.0.0.1:0 has no port that clients can be given; \
             --listen takes 0 for any free port",
        ),
        (
            "[listen]\nproxy = [\"[::]:3128\"]",
            "courtesy.toml:2: listen.proxy: [::]:3128 can be reached from other machines; \
             say who may use the proxy with clients.allow = [\"10.0.0.0/8\"] or clients.users_file, or give --open",
        ),
        (
            "[listen]\nadmin = \"0.0.0.0:3129\"",
            "courtesy.toml:2: listen.admin: 0.0.0.0:3129 can be reached from other machines; \
             set admin.token_file, so that not everybody may look; or write \"127.0.0.1:3129\", or \"off\"",
        ),
        (
            "[listen]\nadmin = \"[::1]:0\"",
            "courtesy.toml:2: listen.admin: [::1]:0 has no port that clients can be given; \
             --admin takes 0 for any free port",
        ),
        (
            "[listen]\nadmin = \"127.0.0.1:3128\"",
            "courtesy.toml:2: listen.admin: 127.0.0.1:3128 is where the proxy listens: \
             listen.proxy has 127.0.0.1:3128; choose another port, or \"off\"",
        ),
        (
            "[clients]\nallow = [\n\"10.0.0.0/8\",\n\"10.0.0/8\"]",
            "courtesy.toml:2: clients.allow: \"10.0.0/8\" is not an address block; \
             write it as \"10.0.0.0/8\" or \"192.0.2.7\"",
        ),
        (
            "[clients]\nmax_connections = 0",
            "courtesy.toml:2: clients.max_connections: expected a whole number of at least 1",
        ),
        (
            "[deny]\nstatus = 200",
            "courtesy.toml:2: deny.status: 200 is not the status of a refusal: 400 to 599",
        ),
        (
            "[engine]\nurl = \"redis://a\"\nca = \"/ca.pem\"",
            "courtesy.toml:3: engine.ca: no connection to the engine uses TLS; \
             write rediss:// in engine.url, or leave this out",
        ),
        (
            "[https]\nca_cert = \"/etc/courtesy/ca.pem\"",
            "courtesy.toml:2: https.ca_cert: is of no use without https.ca_key; \
             set https.ca_key, too, or neither for a CA that is made here",
        ),
        (
            "[https]\nca_key = \"/etc/courtesy/ca.key\"",
            "courtesy.toml:2: https.ca_key: is of no use without https.ca_cert; \
             set https.ca_cert, too, or neither for a CA that is made here",
        ),
        (
            "[[agents.rules]]\nmatch = \"a*\"\ntoken = \"a b\"",
            "courtesy.toml:3: agents.rules[0].token: \"a b\" is not a product token; \
             write one such as \"ExampleBot\", without version",
        ),
        (
            "[[agents.rules]]\nmatch = \"a*\"",
            "courtesy.toml:1: agents.rules[0]: changes nothing; \
             give it one of: token, mode, profile, deny_status, pace, max_wait, pace_status",
        ),
        (
            "[[origins]]\norigin = \"https://example.com\"",
            "courtesy.toml:1: origins[0]: changes nothing; \
             give it one of: mode, profile, pace, delay, concurrency",
        ),
        (
            "[[agents.rules]]\nmatches = \"a*\"\nmatch = \"a*\"\ntoken = \"a\"",
            "courtesy.toml:2: agents.rules[0].matches: there is no such setting; did you mean agents.rules.match?",
        ),
        (
            "[[origins]]\norigin = \"https://example.com/a\"\nmode = \"observe\"",
            "courtesy.toml:2: origins[0].origin: an origin ends after host and port: \"https://example.com\"",
        ),
        (
            "[[exemptions]]\norigin = \"https://example.com\"\nreason = \"x\"\nuntil = \"2027-01-01\"",
            "courtesy.toml:1: exemptions[0].by: is required",
        ),
        (
            "[[exemptions]]\norigin = \"*.example.com\"\nby = \"\"\nreason = \"x\"\nuntil = 2027-01-01",
            "courtesy.toml:3: exemptions[0].by: is empty; an exemption names who allowed it and why",
        ),
        (
            "[[exemptions]]\norigin = \"*.example.com\"\nby = \"a\"\nreason = \"x\"\nuntil = \"soon\"",
            "courtesy.toml:5: exemptions[0].until: \"soon\" is not a date; write \"2026-12-31\" or \"2026-12-31T12:00:00Z\"",
        ),
        (
            "[engine]\nprefix = 1.5",
            "courtesy.toml:2: engine.prefix: expected a text in quotes, such as \"courtesy\", found the number 1.5",
        ),
        (
            "[robots]\ncache_size = 256",
            "courtesy.toml:2: robots.cache_size: expected a text in quotes, such as \"256MiB\", \
             found the number 256",
        ),
        (
            "workers = 99999999999999999999",
            "courtesy.toml:1: workers: expected a whole number, found a number without end",
        ),
        ("workers = -1", "courtesy.toml:1: workers: expected a whole number of at least 1"),
        ("[robots\n", "courtesy.toml:1: unclosed table, expected `]`"),
    ] {
        assert_eq!(diagnostic(file), expected, "{file}");
    }
}

#[test]
fn every_size_and_length_of_time_needs_a_unit() {
    let mut refused = 0;
    for (key, example) in leaves(Schema::new().at_root()) {
        let (Some(example), Some((table, name))) = (example.as_str(), key.split_once('.')) else {
            continue;
        };
        let number = example.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
        let is_measure = number != example && number.parse::<u64>().is_ok();
        let may_be_endless = ["forever", "unlimited"].contains(&example);
        if !is_measure && !may_be_endless {
            continue;
        }
        let said = diagnostic(&format!("[{table}]\n{name} = \"7\""));
        let expected = format!("courtesy.toml:2: {key}: \"7\" has no unit; write \"7");
        assert!(said.starts_with(&expected), "{said}");
        refused += 1;
    }
    assert!(refused > 20, "{refused}");
}

/// By their names, of which the schema has all. Where the CA is, is for [`Source`] to say.
#[test]
fn every_file_that_a_setting_names_is_followed() {
    let schema = Schema::new();
    let ends = ["_file", "_cert", "_key", ".ca", ".cert", ".key", "_roots"];
    let is_file = |key: &String| ends.iter().any(|end| key.ends_with(end));
    let files: BTreeSet<_> = schema
        .keys()
        .into_iter()
        .filter(|key| is_file(key) && !key.starts_with("https.ca_"))
        .collect();
    assert!(files.len() > 10, "{files:?}");
    let settings: Settings = serde_json::from_value(schema.at_root().clone()).unwrap();
    let followed: BTreeSet<_> =
        settings.named_files().into_iter().map(|(key, _)| key.to_owned()).collect();
    assert_eq!(followed, files);
}

/// Of every setting that a rule may have, by the schema: a rule with this one alone is a rule.
#[test]
fn each_setting_of_a_rule_is_a_change() {
    let schema = Schema::new();
    for (table, selector) in [("agents.rules", "match"), ("origins", "origin")] {
        let example = schema.example(&format!("{table}[0]")).and_then(Json::as_object).unwrap();
        assert!(example.len() > 3, "{example:?}");
        for (name, value) in example.iter().filter(|(name, _)| *name != selector) {
            let file = format!("[[{table}]]\n{selector} = {}\n{name} = {value}", example[selector]);
            let loaded = Case { file: &file, variables: &[], flags: vec![] }.load();
            assert!(loaded.is_ok(), "{file}: {}", loaded.unwrap_err());
        }
    }
}

#[test]
fn what_is_wrong_in_the_environment_is_named_by_its_variable() {
    for (name, value, expected) in [
        (
            "COURTESY__ROBOTS__PROFIL",
            "x",
            ": no setting has this name; did you mean COURTESY__ROBOTS__PROFILE?",
        ),
        (
            "COURTESY_ROBOTS_PROFILE",
            "x",
            ": no setting has this name; did you mean COURTESY__ROBOTS__PROFILE?",
        ),
        (
            "COURTESY_ROBOTS__PROFILE",
            "x",
            ": no setting has this name; did you mean COURTESY__ROBOTS__PROFILE?",
        ),
        (
            "COURTESY_SHELL",
            "x",
            ": no setting has this name; settings are spelt COURTESY__TABLE__NAME, with two underscores each time",
        ),
        ("COURTESY__ROBOTS", "x", ": robots: is a table; set one of its settings"),
        (
            "COURTESY__AGENTS__RULES",
            "x",
            ": agents.rules: a list of tables can be set in the file only",
        ),
        ("COURTESY__AGENTS__REQUIRE", "1", ": agents.require: expected true or false, found \"1\""),
        ("COURTESY__WORKERS", "0", ": workers: expected a whole number of at least 1"),
        (
            "COURTESY__ROBOTS__MODE",
            "Observe",
            ": robots.mode: \"Observe\" is not one of \"enforce\", \"observe\"; did you mean \"observe\"?",
        ),
    ] {
        assert_eq!(with_variables("", &[(name, value)]), format!("${name}{expected}"));
    }
}

#[test]
fn everything_wrong_is_said_at_once() {
    let variables = [("COURTESY__ROBOTS__MODES", "x")];
    let said = Case { file: "a = 1\n[robots]\nb = 2", variables: &variables, flags: vec![] }
        .load()
        .unwrap_err();
    assert_eq!(said.lines().count(), 4, "{said}");
}

#[test]
fn variables_of_kubernetes_and_of_clients_are_let_be() {
    let variables = [
        ("COURTESY_PORT", "tcp://10.0.0.1:3128"),
        ("COURTESY_SERVICE_HOST", "10.0.0.1"),
        ("COURTESY_PROXY", "http://127.0.0.1:3128"),
    ];
    assert!(Case { file: "", variables: &variables, flags: vec![] }.load().is_ok());
}

#[test]
fn a_flag_goes_before_a_variable_and_a_variable_before_the_file() {
    let file = "workers = 1\n[robots]\nprofile = \"google\"\nmode = \"observe\"\n[egress]\nallow = [\"192.0.2.1\"]";
    let variables = [("COURTESY__WORKERS", "2"), ("COURTESY__ROBOTS__PROFILE", "archival")];
    let flag = |key: &'static str, change, flag| Override { key: key.into(), change, flag };
    let flags = vec![
        flag("workers", Change::Set("3".into()), "--workers"),
        flag("egress.allow", Change::Add(vec!["10.0.0.0/8".into()]), "--allow-private"),
        flag("listen.proxy", Change::SetList(vec!["127.0.0.1:0".into()]), "--listen"),
        flag("listen.admin", Change::Set("127.0.0.1:0".into()), "--admin"),
    ];
    let loaded = Case { file, variables: &variables, flags }.load().unwrap();
    assert_eq!(loaded.settings.workers, Some(3));
    assert_eq!(loaded.settings.robots.profile, ProfileName::Archival);
    assert_eq!(loaded.settings.robots.mode, Mode::Observe);
    assert_eq!(loaded.settings.egress.allow.len(), 2);

    let from = |key: &str| {
        let effective = loaded.effective();
        let from = &effective.iter().find(|setting| setting.key == key).unwrap().from;
        from.rsplit_once('/').map_or(from.clone(), |(_, name)| name.to_owned())
    };
    assert_eq!(from("workers"), "--workers");
    assert_eq!(from("robots.profile"), "$COURTESY__ROBOTS__PROFILE");
    assert_eq!(from("robots.mode"), "courtesy.toml:4");
    assert_eq!(from("egress.allow"), "courtesy.toml:6 and --allow-private");
    assert_eq!(from("egress.deny"), "default");
    assert_eq!(from("state_dir"), "$HOME");
}

/// The settings with these `--set`, one after the other.
fn assigned(assignments: &[(&'static str, &str)]) -> Result<Loaded, String> {
    let flag = |(key, value): &(&'static str, &str)| Override {
        key: (*key).into(),
        change: Change::Assign((*value).to_owned()),
        flag: SET_FLAG,
    };
    let flags = assignments.iter().map(flag).collect();
    Case { file: "pace = { delay = \"1s\", concurrency = 3 }", variables: &[], flags }.load()
}

#[test]
fn a_setting_by_set_is_what_the_file_would_have() {
    let loaded = assigned(&[
        ("pace.delay", "2s"),
        ("robots.profile", "\"google\""),
        ("workers", "0x3"),
        ("clients.open", "true"),
        ("clients.allow", "[\"10.0.0.0/8\", \"192.0.2.7\"]"),
        ("egress.allow", "10.0.0.0/8,192.0.2.7"),
        ("listen.proxy", "0"),
        ("admin.token_file", "true"),
        ("listen.admin", "off"),
        ("origins", "[{ origin = \"https://example.com\", delay = \"9s\" }]"),
    ])
    .unwrap();
    let settings = &loaded.settings;
    assert_eq!(settings.pace.delay, std::time::Duration::from_secs(2));
    assert_eq!((settings.pace.concurrency, settings.workers), (3, Some(3)), "the file's stays");
    assert_eq!(settings.robots.profile, ProfileName::Google);
    assert_eq!((settings.clients.allow.len(), settings.egress.allow.len()), (2, 2));
    assert_eq!(settings.admin.token_file, Some("true".into()), "a text needs no quotes");
    assert_eq!(settings.origins[0].delay, Some(std::time::Duration::from_secs(9)));
    assert!(settings.clients.open && loaded.is_flagged("pace.delay"));
    assert!(!loaded.is_flagged("pace.concurrency") && !loaded.is_flagged("pace.max_wait"));
    let table = assigned(&[("pace", "{ delay = \"4s\" }")]).unwrap().settings.pace;
    assert_eq!((table.delay.as_secs(), table.concurrency), (4, 3));
    let last = assigned(&[("workers", "1"), ("workers", "2")]).unwrap();
    assert_eq!(last.settings.workers, Some(2));
}

#[test]
fn what_set_cannot_mean_is_said_as_of_the_file() {
    for (key, value, said) in [
        ("pace.dely", "2s", "there is no such setting; did you mean pace.delay?"),
        ("pace.delay", "2x", "\"2x\""),
        ("workers", "many", "expected a whole number, found \"many\""),
        ("workers", "1.5", "expected a whole number, found the number 1.5"),
        ("clients.open", "1", "expected true or false, found the number 1"),
        ("clients.allow", "[1]", "expected a text in quotes"),
        ("pace", "2s", "is a table; set one of its settings"),
        ("origins", "https://example.com", "a list of tables can be set in the file only"),
        ("origins", "[{ delai = 1 }]", "there is no such setting; did you mean origins.delay?"),
        ("origins[0].delay", "2s", "there is no such setting"),
        ("", "1", "there is no such setting"),
        ("pace.", "1", "there is no such setting"),
    ] {
        let problem = assigned(&[(key, value)]).unwrap_err();
        let begins = format!("the configuration cannot be used\n  --set: {key}");
        assert!(problem.starts_with(&begins) && problem.contains(said), "{key}: {problem}");
    }
}

#[test]
fn lists_in_the_environment_are_parted_by_commas() {
    let variables =
        [("COURTESY__CLIENTS__ALLOW", "10.0.0.0/8, 192.0.2.7,"), ("COURTESY__EGRESS__DENY", "")];
    let settings = Case { file: "", variables: &variables, flags: vec![] }.load().unwrap().settings;
    assert_eq!(
        settings.clients.allow,
        ["10.0.0.0/8".parse().unwrap(), "192.0.2.7/32".parse().unwrap()]
    );
    assert!(settings.egress.deny.is_empty());
}

#[test]
fn state_is_kept_where_the_nearest_voice_says() {
    for (variables, expected) in [
        (&[("STATE_DIRECTORY", "/var/lib/courtesy:/var/lib/other")][..], "/var/lib/courtesy"),
        (&[("XDG_STATE_HOME", "/x"), ("STATE_DIRECTORY", "")], "/x/courtesy"),
        (&[("STATE_DIRECTORY", "/s"), ("COURTESY__STATE_DIR", "/v")], "/v"),
        (&[], "/home/user/.local/state/courtesy"),
    ] {
        let settings = Case { file: "", variables, flags: vec![] }.load().unwrap().settings;
        assert_eq!(settings.state_dir, PathBuf::from(expected));
        assert_eq!(settings.audit_dir(), Path::new(expected).join("audit"));
    }
}

#[test]
fn the_ca_is_the_operators_own_before_that_of_systemd_before_ours() {
    let credentials = tempfile::tempdir().unwrap();
    let [certificate, key] = ["ca.crt", "ca.key"].map(|name| credentials.path().join(name));
    let mut settings = from_file("");
    let ours = Source::Own("/home/user/.local/state/courtesy/ca".into());
    assert_eq!(settings.ca(None), ours);
    assert_eq!(settings.ca(Some(credentials.path())), ours, "credentials for something else");
    // A half of it is found, too: that the other is missing is then said.
    std::fs::write(&key, "").unwrap();
    assert_eq!(settings.ca(Some(credentials.path())), Source::Credentials { certificate, key });
    settings.https.ca_cert = Some("a".into());
    settings.https.ca_key = Some("b".into());
    let own = Source::Files { certificate: "a".into(), key: "b".into() };
    assert_eq!(settings.ca(Some(credentials.path())), own);
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let home = [("HOME".to_owned(), "/".to_owned())];
    let said = load(Some(Path::new("/nowhere.toml")), home, &[]).unwrap_err().to_string();
    assert!(said.contains("--config: cannot read /nowhere.toml: "), "{said}");
    let variable = [("COURTESY_CONFIG".to_owned(), "/nowhere.toml".to_owned())];
    let said = load(None, variable, &[]).unwrap_err().to_string();
    assert!(said.contains("$COURTESY_CONFIG: cannot read /nowhere.toml: "), "{said}");
}

#[test]
fn a_user_has_a_file_of_their_own_before_the_machines() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let write = |dir: &Path, workers: usize| {
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(dir.join("config.toml"), format!("workers = {workers}\n")).unwrap();
        dir.join("config.toml")
    };
    let named = write(&home.path().join("named"), 1);
    let in_home = write(&home.path().join(".config/courtesy"), 2);
    let in_config = write(&home.path().join("config/courtesy"), 3);
    let at = |path: &Path| path.display().to_string();
    let (of_home, of_config) = (at(home.path()), at(&home.path().join("config")));
    let read = |flag: Option<&Path>, variables: &[(&str, &str)]| {
        let state = [("XDG_STATE_HOME", "/state")];
        let variables = state.iter().chain(variables);
        let variables = variables.map(|(name, value)| ((*name).into(), (*value).into()));
        load(flag, variables, &[]).map(|loaded| (loaded.file, loaded.settings.workers))
    };
    let all = [("HOME", &*of_home), ("XDG_CONFIG_HOME", &*of_config)];
    let by_variable = ("COURTESY_CONFIG", &*at(&named));
    assert_eq!(read(None, &all).unwrap(), (Some(in_config.clone()), Some(3)));
    assert_eq!(read(None, &all[..1]).unwrap(), (Some(in_home.clone()), Some(2)));
    assert_eq!(read(None, &[all[0], all[1], by_variable]).unwrap().1, Some(1));
    assert_eq!(read(Some(&in_home), &all).unwrap().1, Some(2));
    // A relative path means nothing (XDG); neither do a home without the file, none, or one that is
    // no directory.
    for variables in
        [&[("XDG_CONFIG_HOME", "config"), all[0]][..], &[("XDG_CONFIG_HOME", ""), all[0]]]
    {
        assert_eq!(read(None, variables).unwrap().0, Some(in_home.clone()));
    }
    for home in [&[][..], &[("HOME", "/dev/null")], &[("HOME", "/nonexistent")], &[("HOME", "")]] {
        assert_ne!(read(None, home).unwrap().1, Some(2), "{home:?}");
    }
    std::fs::set_permissions(&in_home, std::fs::Permissions::from_mode(0o666)).unwrap();
    let refusal = read(None, &all[..1]).unwrap_err();
    let expected = format!(
        "cannot read {}: every user can write to it; name it with --config if it is to be used",
        in_home.display()
    );
    assert!(refusal.0[0].is_denied && refusal.to_string().ends_with(&expected), "{refusal}");
    assert_eq!(read(Some(&in_home), &all[..1]).unwrap().1, Some(2), "it was named");
    let problem = locate(None, [("HOME".to_owned(), of_home.clone())], None).problem;
    assert_eq!(problem, Some(expected));
    if rustix::process::geteuid().is_root() {
        let other = rustix::process::Uid::from_raw(65_534);
        rustix::fs::chown(&in_config, Some(other), None).unwrap();
        let said = read(None, &all).unwrap_err().to_string();
        assert!(said.contains("it belongs to user 65534, and this is user 0; name it"), "{said}");
    }
}

#[test]
fn an_exemption_that_has_ended_is_said_and_no_error() {
    let settings = from_file(
        "[[exemptions]]\norigin = \"*.example.com\"\nby = \"them\"\nreason = \"archive\"\nuntil = 2020-01-01",
    );
    let ended = Timestamp::from_millis(1_577_923_200_000);
    assert_eq!(
        settings.notices(ended),
        [
            "the exemption for *.example.com by them ended at 2020-01-02T00:00:00Z and no longer applies"
        ]
    );
    assert!(settings.notices(Timestamp::from_millis(ended.millis() - 1)).is_empty());
}

/// The documented file with its examples made live.
fn documented() -> String {
    let live = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if rest.starts_with("[[") || is_setting(rest) => rest.to_owned(),
        _ => line.to_owned(),
    };
    DEFAULT_FILE.lines().map(|line| live(line) + "\n").collect()
}

proptest::proptest! {
    #[test]
    fn f16_every_moment_can_be_written_in_each_form(millis in proptest::prelude::any::<u64>()) {
        use crate::types::timestamp::Timestamp;
        let moment = Timestamp::from_millis(millis);
        let printed = crate::audit::print_time(moment);
        proptest::prop_assert_eq!(crate::audit::parse_time(&printed), Some(moment));
        proptest::prop_assert!(super::values::print_date(&moment).ends_with('Z'));
        proptest::prop_assert_eq!(crate::audit::new_id(moment).len(), 26);
    }
}

fn is_setting(line: &str) -> bool {
    line.split_once(" = ").is_some_and(|(name, _)| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[test]
fn the_documented_file_has_the_defaults() {
    // Examples are behind a "#", so what is live must change nothing.
    assert_eq!(from_file(DEFAULT_FILE), from_file(""));
    let live: Vec<_> = DEFAULT_FILE.lines().filter(|line| is_setting(line)).collect();
    let of_defaults = leaves(&serde_json::to_value(Settings::default()).unwrap())
        .iter()
        .filter(|(_, value)| !value.is_null())
        .count();
    // Without state_dir, agents.rules, origins and exemptions, which have no default to show.
    assert_eq!(live.len(), of_defaults - 4, "a default that is not shown");
}

#[test]
fn the_documented_file_has_every_setting_each_with_a_sentence() {
    let documented = documented();
    let table: toml::Table = documented.parse().unwrap();
    let mut in_file = BTreeSet::new();
    names("", &serde_json::to_value(table).unwrap(), &mut in_file);
    let mut in_code = BTreeSet::new();
    names("", Schema::new().at_root(), &mut in_code);
    assert_eq!(in_file, in_code);

    let lines: Vec<_> = documented.lines().collect();
    for pair in lines.windows(2).filter(|pair| is_setting(pair[1])) {
        assert!(
            pair[0].starts_with("# ") || pair[0].starts_with("[["),
            "no sentence before {}",
            pair[1]
        );
    }
}

fn names(key: &str, value: &Json, found: &mut BTreeSet<String>) {
    match value {
        Json::Object(table) => {
            table.iter().for_each(|(name, value)| names(&format!("{key}.{name}"), value, found))
        }
        Json::Array(items) if items.first().is_some_and(Json::is_object) => {
            names(key, &items[0], found)
        }
        _ => drop(found.insert(key.to_owned())),
    }
}

#[test]
fn what_is_shown_is_a_file_that_comes_to_the_same() {
    let file = "
        state_dir = \"/a \\u007f\"
        [robots]
        profile = \"google\"
        [[agents.rules]]
        match = \"wget/*\"
        mode = \"observe\"
        [[exemptions]]
        origin = \"*.example.com\"
        by = \"operator\"
        reason = \"\\\"why\\\"\"
        until = \"2026-12-31T12:00:00.5Z\"
    ";
    let values = |loaded: Loaded| -> Vec<_> {
        loaded.effective().into_iter().map(|setting| (setting.key, setting.value)).collect()
    };
    let load = |file: &str| Case { file, variables: &[], flags: vec![] }.load().unwrap();
    let shown: String =
        load(file).effective().iter().map(|setting| format!("{setting}\n")).collect();
    assert_eq!(values(load(&shown)), values(load(file)), "{shown}");
}

#[test]
fn what_is_probably_not_meant_is_noted() {
    let notices = |file: &str| {
        let loaded = Case { file, variables: &[], flags: vec![] }.load().unwrap();
        let all = loaded.notices(Timestamp::from_millis(0)).join("\n");
        all.split_once("courtesy.toml").map_or(all.clone(), |(_, rest)| rest.to_owned())
    };
    for (file, expected) in [
        (
            "clients.allow = [\"10.0.0.5/8\"]",
            ":1: clients.allow: \"10.0.0.5/8\" stands for the whole block 10.0.0.0/8; ",
        ),
        (
            "egress.allow = [\"10.0.0.5/8:443\"]",
            ":1: egress.allow: \"10.0.0.5/8:443\" stands for the whole block 10.0.0.0/8; ",
        ),
        (
            "egress.deny = [\"[fd00::1/64]:443\"]",
            ":1: egress.deny: \"[fd00::1/64]:443\" stands for the whole block fd00::/64; ",
        ),
    ] {
        assert!(notices(file).starts_with(expected), "{file}: {}", notices(file));
    }
    for file in [
        "clients.allow = [\"10.0.0.0/8\", \"192.0.2.7\", \"::1\"]",
        "egress.allow = [\"192.0.2.7:8080\", \"[fd00::/64]:443\", \"192.0.2.7/32\"]",
    ] {
        assert_eq!(notices(file), "", "{file}");
    }
}

#[test]
fn an_address_to_listen_on_may_be_shortened() {
    let settings = from_file("[listen]\nproxy = [\"localhost:3128\", \"::1\"]\nadmin = \"4129\"");
    let addresses: Vec<_> = settings.listen.proxy.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["127.0.0.1:3128", "[::1]:3128"]);
    assert_eq!(settings.listen.admin.to_string(), "127.0.0.1:4129");
    assert_eq!(
        diagnostic("[listen]\nproxy = [\"127.0.0.1\", \"proxy.example:3128\"]"),
        "courtesy.toml:2: listen.proxy[1]: \"proxy.example:3128\" is no address to listen on; write \"127.0.0.1:3128\""
    );
}

/// Every setting that names a file is followed; but for those of the CA, whose source says where it is.
#[test]
fn each_file_that_a_setting_names_is_followed() {
    let settings = super::schema::example();
    let named: BTreeSet<_> = settings.named_files().into_iter().map(|(key, _)| key).collect();
    let is_file = |key: &&String| {
        let last = key.rsplit('.').next().unwrap_or("");
        last.ends_with("_file")
            || ["ca", "cert", "key", "tls_cert", "tls_key", "extra_roots"].contains(&last)
    };
    let keys = Schema::new().keys();
    let files: BTreeSet<_> = keys.iter().filter(is_file).map(String::as_str).collect();
    assert_eq!(named, files);
}

/// A sixth is for connections, the program itself and the allocator.
#[test]
fn what_is_remembered_by_default_fits_in_the_memory_of_the_unit() {
    const MEMORY_MAX: u64 = 1 << 30;
    let unit = include_str!("../../systemd/courtesy.service");
    assert!(unit.lines().any(|line| line == "MemoryMax=1G"));
    let bytes = |bytes: usize| u64::try_from(bytes).unwrap();
    let bounds = [
        ("limits.body_memory, by the unit", MEMORY_MAX / 4),
        ("robots.cache_size", Settings::default().robots.cache_size),
        ("what waits for the disk", bytes(crate::engine::KEPT_WAITING_BYTES_MAX)),
        ("the cache of the database", 16 << 20),
        ("samples of allowed requests", 32 << 20),
        ("the pace of origins", bytes(crate::pace::config::LANES_BYTES_MAX)),
        ("that of addresses", bytes(crate::pace::config::ADDRESS_LANES_BYTES_MAX)),
        ("visits", bytes(256 * crate::pace::config::VISITED_ORIGINS_MAX)),
    ];
    let sum: u64 = bounds.iter().map(|(_, bytes)| bytes).sum();
    assert!(sum <= MEMORY_MAX / 6 * 5, "{bounds:?} are {sum}");
}

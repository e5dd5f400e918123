//! The size of the source and how it is cut, with bounds: what is added goes into a house that stays small.
//! `cargo test --test architecture measures -- --nocapture` prints the figures; `benches/instructions
//! --files` those of the files that a request enters.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::source::{self, Token, all_tokens, root, without_tests};

/// Files of `src/` and of the crates beside it, those of tests not among them.
const FILES_MAX: usize = 472;

/// Lines of code of the file in the middle: files that are cut finer are read one after the other anyway.
const MEDIAN_MIN: usize = 110;

/// Files of fewer than 40 lines of code, in per cent of all.
const SMALL_PERCENT_MAX: usize = 12;

/// Lines of code of one file. A longer one has two ideas: the *type* is to be divided, not the file.
const LONGEST_MAX: usize = 550;

/// Settings: one needs two deployments that differ in it.
const SETTINGS_MAX: usize = 102;

/// Crates that are locked, those of tests among them, those of this repository not.
const CRATES_MAX: usize = 402;

/// Names of types that stand in more than one file.
const SHARED_NAMES_MAX: usize = 160;

/// Inherent `impl`s of types of other files, with the reason.
const APART: &[(&str, &str, &str)] = &[
    (
        "AgentKey",
        "audit/read/report/tally.rs",
        "a key as it is counted, beside a row as it is printed",
    ),
    (
        "ClientKey",
        "audit/read/report/tally.rs",
        "a key as it is counted, beside a row as it is printed",
    ),
    (
        "ExemptionKey",
        "audit/read/report/tally.rs",
        "a key as it is counted, beside a row as it is printed",
    ),
    (
        "NodeKey",
        "audit/read/report/tally.rs",
        "a key as it is counted, beside a row as it is printed",
    ),
    (
        "OriginKey",
        "audit/read/report/tally.rs",
        "a key as it is counted, beside a row as it is printed",
    ),
    (
        "PacedKey",
        "audit/read/report/tally.rs",
        "a key as it is counted, beside a row as it is printed",
    ),
    (
        "ProfileKey",
        "audit/read/report/tally.rs",
        "a key as it is counted, beside a row as it is printed",
    ),
    (
        "RuleKey",
        "audit/read/report/tally.rs",
        "a key as it is counted, beside a row as it is printed",
    ),
    ("At", "audit/read/verify/chain.rs", "a line of a log, which faults do not know"),
    ("Record", "audit/record/meta_record.rs", "evidence of all kinds of records in one place"),
    ("Robots", "audit/record/meta_record.rs", "evidence of all kinds of records in one place"),
    ("Side", "audit/record/meta_record.rs", "evidence of all kinds of records in one place"),
    ("Clients", "clients/admission.rs", "its errors are those of an admission"),
    ("Settings", "config/build.rs", "the configuration of each part: 150 lines of another idea"),
    ("Settings", "config/load.rs", "files and variables, which the settings do not know"),
    ("Loaded", "config/show.rs", "settings as text"),
    ("Settings", "config/show.rs", "settings as text"),
    (
        "Lanes",
        "pace/acquire.rs",
        "the wait for a turn, which is asynchronous, as the rest of it is not",
    ),
    (
        "Lane",
        "pace/lane/estimate.rs",
        "when a request could start, without starting it: 180 lines of reading",
    ),
    ("Lane", "pace/lane/kept.rs", "what outlasts the process, beside how it is taken up"),
    ("TurnGuard", "pace/slot.rs", "its slot at an engine"),
    ("TurnGuard", "pace/turn.rs", "its start and end, which are private to turns"),
    ("Lanes", "pace/turn_request.rs", "a request as its lane sees it, made of the settings"),
    ("Proxy", "proxy/connect/handler.rs", "CONNECT: 200 lines beside the path of a request"),
    ("Proxy", "proxy/connect/transparent.rs", "connections without a CONNECT"),
    ("Gate", "proxy/decision/revocation.rs", "a second decision on what is open"),
    ("Validators", "store/fetch/mod.rs", "judges a response, which a request does not know"),
    ("StoreCore", "store/fetch_task.rs", "the task of a fetch, which is all of that file"),
    ("Answer", "store/persisted.rs", "what is written of it, beside how it is read"),
    ("Entry", "store/persisted.rs", "what is written of it, beside how it is read"),
];

/// Lines of code by folder of `src/`, `robots` being the crate in `crates/robots`: they may only shrink. What is to come makes its room.
const BUDGETS: &[(&str, usize)] = &[
    ("admin", 2_060),
    ("audit", 12_830),
    ("ca", 900),
    ("cli", 20_320),
    ("clients", 1_415),
    ("config", 2_910),
    ("egress", 6_150),
    ("engine", 7_120),
    ("name_server", 300),
    ("pace", 5_660),
    ("policy", 1_725),
    ("proxy", 9_250),
    ("robots", 3_110),
    ("runtime", 520),
    ("server", 2_100),
    ("store", 4_775),
    ("types", 1_360),
    ("watch", 1_340),
];

/// A file of `src/` without its tests.
struct Source {
    path: String,
    lines: usize,
    tokens: Vec<Token>,
}

fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for (path, file) in source::sources() {
        let is_test = path.ends_with("tests.rs") || path.contains("tests/");
        if !path.ends_with(".rs") || is_test {
            continue;
        }
        let text = fs::read_to_string(&file).expect("text");
        let all = all_tokens(&text);
        let tokens = without_tests(&all);
        let lines_of = |tokens: &[Token]| tokens.iter().map(|it| it.line).collect::<BTreeSet<_>>();
        let of_tests = &lines_of(&all) - &lines_of(&tokens);
        let is_code = |(number, line): &(usize, &str)| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with("//") && !of_tests.contains(&(number + 1))
        };
        let lines = text.lines().enumerate().filter(is_code).count();
        sources.push(Source { path, lines, tokens });
    }
    assert!(sources.len() > 100, "the source was not found");
    sources
}

#[test]
fn the_source_is_cut_into_files_that_earn_their_door() {
    let sources = sources();
    let mut lines: Vec<_> = sources.iter().map(|source| source.lines).collect();
    lines.sort_unstable();
    let (files, median) = (lines.len(), lines[lines.len() / 2]);
    let small = 100 * lines.iter().filter(|lines| **lines < 40).count() / files;
    let longest = lines.last().expect("a file");
    let code: usize = lines.iter().sum();
    println!(
        "{files} files, {code} lines of code, median {median}, longest {longest}, {small} % below 40 lines"
    );
    assert!(files <= FILES_MAX, "{files} files; at most {FILES_MAX}");
    assert!(median >= MEDIAN_MIN, "median {median}; at least {MEDIAN_MIN}");
    assert!(small <= SMALL_PERCENT_MAX, "{small} % below 40 lines; at most {SMALL_PERCENT_MAX}");
    let long = sources.iter().filter(|source| source.lines > LONGEST_MAX);
    let long: Vec<_> = long.map(|source| (&source.path, source.lines)).collect();
    assert!(long.is_empty(), "longer than {LONGEST_MAX}: {long:?}");
}

#[test]
fn each_folder_keeps_its_budget_of_lines() {
    let mut folders = BTreeMap::<&str, usize>::new();
    let sources = sources();
    for source in &sources {
        let folder = source.path.split('/').next().unwrap_or_default();
        *folders.entry(folder).or_default() += source.lines;
    }
    for (folder, lines) in &folders {
        println!("{lines} {folder}");
    }
    for (folder, most) in BUDGETS {
        let lines = folders.get(folder).unwrap_or_else(|| panic!("no folder {folder}"));
        assert!(lines <= most, "{folder}: {lines} lines of code, {most} are its budget");
    }
}

#[test]
fn settings_and_crates_are_few() {
    let text = |path: &str| fs::read_to_string(root().join(path)).expect("text");
    // The members of a table in a list are none: there is one for each origin, agent, exemption.
    let (mut settings, mut is_list) = (0, false);
    for line in text("config/courtesy.toml").lines() {
        let line = line.trim_start_matches(['#', ' ']);
        if line.starts_with('[') && line.ends_with(']') {
            is_list = line.starts_with("[[");
        }
        let is_name = |name: &str| name.chars().all(|it| it.is_ascii_lowercase() || it == '_');
        let is_setting = line.split_once(" = ").is_some_and(|(name, _)| is_name(name));
        settings += usize::from(is_setting && !is_list);
    }
    let crates = text("Cargo.lock").matches("\nsource = ").count();
    println!("{settings} settings, {crates} crates");
    assert!(settings <= SETTINGS_MAX, "{settings} settings; at most {SETTINGS_MAX}");
    assert!(crates <= CRATES_MAX, "{crates} crates; at most {CRATES_MAX}");
}

#[test]
fn a_type_and_its_methods_are_one_file() {
    let mut apart = BTreeSet::new();
    for source in sources() {
        let own: BTreeSet<_> = declared(&source.tokens).collect();
        for name in implemented(&source.tokens).filter(|name| !own.contains(name)) {
            apart.insert((name, source.path.clone()));
        }
    }
    let all = apart.len();
    let excepted = |(name, path): &&(String, String)| {
        !APART.iter().any(|(other, at, _)| other == name && at == path)
    };
    for (name, path, _) in APART {
        assert!(apart.contains(&((*name).to_owned(), (*path).to_owned())), "{name} is in its file");
    }
    let apart: Vec<_> = apart.iter().filter(excepted).collect();
    println!("{} impls apart from their type, {} with a reason", all, APART.len());
    assert!(apart.is_empty(), "impls of types of other files: {apart:#?}");
}

#[test]
fn few_names_of_types_stand_twice() {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for source in sources() {
        let names: BTreeSet<_> = declared(&source.tokens).collect();
        for name in names {
            places.entry(name).or_default().push(source.path.clone());
        }
    }
    places.retain(|_, places| places.len() > 1);
    for (name, places) in &places {
        println!("{name}: {}", places.join(", "));
    }
    let shared = places.len();
    println!("{shared} names of types stand more than once");
    assert!(shared <= SHARED_NAMES_MAX, "{shared} names; at most {SHARED_NAMES_MAX}: see above");
}

/// The types that a file declares, those inside functions not among them.
fn declared(tokens: &[Token]) -> impl Iterator<Item = String> {
    let kinds = ["struct", "enum", "union", "trait"];
    let named = tokens.windows(2).filter(move |pair| kinds.iter().any(|kind| pair[0].is(kind)));
    named.map(|pair| pair[1].text.clone()).filter(|name| name.starts_with(char::is_uppercase))
}

/// The types of which it has inherent methods: `impl` at the beginning of an item, without `for`.
fn implemented(tokens: &[Token]) -> impl Iterator<Item = String> {
    let begins = |at: usize| {
        tokens[at].is("impl")
            && (at == 0 || [";", "}", "{", "]"].iter().any(|end| tokens[at - 1].is(end)))
    };
    (0..tokens.len()).filter(move |at| begins(*at)).filter_map(|at| {
        let end = tokens[at..].iter().position(|token| token.is("{"))?;
        let head = &tokens[at + 1..at + end];
        if head.iter().any(|token| token.is("for")) {
            return None;
        }
        let (mut depth, mut name) = (0, None);
        for token in head {
            match token.text.as_str() {
                "<" => depth += 1,
                ">" => depth -= 1,
                "where" => break,
                text if depth == 0 && token.is_word() => name = Some(text.to_owned()),
                _ => {}
            }
        }
        // A parameter of a macro is no name.
        name.filter(|name| name.starts_with(char::is_uppercase))
    })
}

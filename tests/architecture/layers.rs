//! The layers in `src/lib.rs`, held against the source.

use std::fs;

use crate::source::{root, sources};

/// The folders of `src` in the order of the layers, lowest first. Each may name only itself and those before.
const ORDER: [&str; 18] = [
    "types",
    "robots",
    "policy", // what things are called, what a robots.txt means
    "runtime",
    "engine",
    "clients",
    "ca",
    "audit",
    "pace",
    "egress",
    "name_server",
    "store",
    "watch", // one thing each
    "proxy", // the life of one request
    "config",
    "admin",
    "server",
    "cli", // puts it together
];

/// The pure layers: no I/O, no clock, no log, no tasks.
const PURE: &[&str] = &[
    "src/types/",
    "crates/robots/src/",
    "src/policy/",
    "src/clients/fair_queue.rs",
    "src/pace/hold.rs",
    "src/pace/lane.rs",
    "src/pace/lane/",
    "src/pace/tick.rs",
];
const IMPURE: &[&str] = &[
    "tokio::",
    "tracing::",
    "hyper::",
    "std::fs",
    "std::env",
    "std::thread",
    "std::io",
    "Instant",
    "SystemTime",
];

/// Each line of code with the module it stands in and where, comments left out.
fn lines() -> Vec<(String, String, String)> {
    let mut lines = Vec::new();
    for (path, file) in sources().iter().filter(|(path, _)| path.ends_with(".rs")) {
        let module = path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        let within = file.strip_prefix(root()).expect("below the root").display();
        for (number, line) in fs::read_to_string(file).expect("text").lines().enumerate() {
            if !line.trim_start().starts_with("//") {
                lines.push((module.clone(), format!("{within}:{}", number + 1), line.to_owned()));
            }
        }
    }
    assert!(lines.len() > 1000, "the source was not found");
    lines
}

/// The modules that a line names by `crate::name`, also in `use crate::{a, b}`.
fn named(line: &str) -> Vec<String> {
    let word = |text: &str| {
        text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect::<String>()
    };
    line.match_indices("crate::")
        .flat_map(|(at, found)| {
            let rest = &line[at + found.len()..];
            match rest.strip_prefix('{') {
                Some(list) => list.split(',').map(|item| word(item.trim_start())).collect(),
                None => vec![word(rest)],
            }
        })
        .filter(|name| !name.is_empty())
        .collect()
}

#[track_caller]
fn none(offences: Vec<String>, rule: &str) {
    assert!(offences.is_empty(), "{rule}:\n{}", offences.join("\n"));
}

#[test]
fn a_module_names_only_layers_below_its_own() {
    let place = |name: &str| ORDER.iter().position(|module| *module == name);
    let mut offences = Vec::new();
    // A crate of its own names nothing of the program: the compiler sees to that.
    for (module, at, line) in lines().into_iter().filter(|(module, ..)| module != "robots") {
        let Some(own) = place(&module) else {
            assert!(
                module == "lib" || module == "main",
                "{at}: put the module {module} on a layer"
            );
            continue;
        };
        for name in named(&line) {
            match place(&name) {
                Some(other) if other <= own => {}
                _ => offences.push(format!("{at}: {module} names {name}")),
            }
        }
    }
    none(offences, "a module names only what stands before it on the map");
}

#[test]
fn the_pure_layers_do_nothing_but_compute() {
    let offences = lines()
        .into_iter()
        .filter(|(_, at, line)| {
            let is_pure = PURE.iter().any(|path| at.starts_with(path));
            is_pure && IMPURE.iter().any(|word| line.contains(word))
        })
        .map(|(_, at, line)| format!("{at}: {line}"));
    none(offences.collect(), "layers 0 and 1 do no I/O, read no clock, log nothing, spawn nothing");
}

#[test]
fn responses_permits_and_recorded_denials_are_made_in_one_place_each() {
    let made_elsewhere = |what: &'static str, place: &'static str| {
        lines()
            .into_iter()
            .filter(move |(module, at, line)| {
                module == "proxy" && line.contains(what) && !at.contains(place)
            })
            .map(|(_, at, line)| format!("{at}: {line}"))
            .collect::<Vec<_>>()
    };
    none(
        made_elsewhere("Response::new(", "proxy/response/mod.rs"),
        "only proxy/response/mod.rs makes responses",
    );
    none(
        made_elsewhere("Permit {", "proxy/decision/gate.rs"),
        "only proxy/decision/gate.rs makes permits",
    );
    none(
        made_elsewhere("Recorded::write(", "proxy/decision/enforce.rs"),
        "only proxy/decision/enforce.rs records denials",
    );
    none(
        made_elsewhere("Recorded {", "proxy/denial.rs"),
        "a denial becomes a recorded one only by the write of its record",
    );
    none(
        made_elsewhere("is_in_log:", "proxy/denial.rs"),
        "a denial becomes a recorded one only by the write of its record",
    );
}

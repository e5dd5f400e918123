//! The robots engine beside the crates `robotxt`, `texting_robots` and `robotstxt`: the same files, the
//! same questions, one after the other. `cargo bench --bench beside`; see `benches/README.md`.
//!
//! What is timed is a decision on what is kept of a file. Ours is kept once for all crawlers, so a
//! decision of ours finds the group of a token, brings the path to its normal form, and gives the rule
//! and its line. `texting_robots` and `robotxt` keep a file for one crawler: they are given that, the
//! group chosen already. `robotstxt` keeps nothing: it reads the file for each decision.

mod engines;
#[path = "../files/mod.rs"]
mod files;
mod table;

use std::hint::black_box;

use engines::{Decide, ENGINES, Engine, READERS};
use files::{Agent, File, TOKEN, hostile, real};
use table::{Table, repeat};

/// One in so many questions about real files is asked: they are about 370,000.
const STRIDE: usize = 7;

/// One in so many real files is parsed for the table of parsing.
const PARSE_STRIDE: usize = 5;

/// Bytes of a path that no backtracking matcher is asked about.
const LONG_PATH_BYTES: usize = 8_000;

fn main() {
    let real = real();
    let mut decisions = Table::new("a decision, real files");
    let mut number = 0;
    for file in &real {
        for agent in &file.agents {
            let chosen =
                (0..file.paths.len()).filter(|at| (number + at) % STRIDE == 0).collect::<Vec<_>>();
            number += file.paths.len();
            decide(file, agent, &chosen, &mut decisions, Table::time);
        }
    }
    decisions.print();

    let mut parsing = Table::new("parsing, real files");
    real.iter().step_by(PARSE_STRIDE).for_each(|file| parse(file, &mut parsing, Table::time));
    parsing.print();

    for file in hostile() {
        let mut decisions = Table::new(&format!("a decision: {}", file.name));
        decide(&file, &file.agents[0], &[0], &mut decisions, Table::time_each);
        decisions.print();
        let mut parsing = Table::new(&format!("parsing: {}", file.name));
        parse(&file, &mut parsing, Table::time_each);
        parsing.print();
    }
}

/// How something is measured.
type Time = fn(&mut Table, &'static str, &mut dyn FnMut(u32));

/// Asks each engine for the `chosen` paths.
fn decide(file: &File, agent: &Agent, chosen: &[usize], table: &mut Table, time: Time) {
    if chosen.is_empty() {
        return;
    }
    let (takers, others): (Vec<Engine>, Vec<Engine>) = ENGINES
        .into_iter()
        .partition(|engine| engine.takes(&file.text, &agent.token) && ends(*engine, file));
    let takers: Vec<(Engine, Decide<'_>)> =
        takers.into_iter().map(|engine| (engine, engine.keep(&file.text, &agent.token))).collect();
    for &at in chosen {
        let path = &file.paths[at];
        for (engine, kept) in &takers {
            let is_right = kept(path, 1) == agent.answers[at];
            assert!(
                is_right || *engine != Engine::Courtesy,
                "{}: {} {path}",
                file.name,
                agent.token
            );
            table.answer(engine.name(), is_right);
            time(table, engine.name(), &mut |times| _ = kept(path, times));
        }
    }
    others.iter().for_each(|engine| table.miss(engine.name(), chosen.len()));
}

/// Whether decisions come to an end: `robotstxt` tries a wildcard at every byte, for every place that those
/// before it can have. Where they meet a path of many KB, it is busy for minutes.
fn ends(engine: Engine, file: &File) -> bool {
    let is_long = |path: &String| path.len() >= LONG_PATH_BYTES;
    engine != Engine::Robotstxt || !file.text.contains("/*") || !file.paths.iter().any(is_long)
}

/// Lets each engine read a file for one crawler.
fn parse(file: &File, table: &mut Table, time: Time) {
    for engine in READERS {
        if engine.takes(&file.text, TOKEN) {
            let mut parse = |times| repeat(times, || engine.parses(black_box(&file.text), TOKEN));
            time(table, engine.name(), &mut parse);
        } else {
            table.miss(engine.name(), 1);
        }
    }
}

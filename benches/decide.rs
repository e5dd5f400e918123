//! What a decision costs on a file already parsed, ordinary, real and hostile, and what parsing costs.
//! `cargo bench --bench decide`; beside other engines: `benches/beside`.

mod files;
#[path = "../tests/testkit/hostile.rs"]
mod hostile;

use std::hint::black_box;

use courtesy::robots::{Dialect, RobotsTxt, Verdict};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

use files::{TOKEN, real};

/// One in so many real files is taken.
const STRIDE: usize = 20;

const ORDINARY: &str = "\
user-agent: *
disallow: /admin/
disallow: /cart
disallow: /checkout/
disallow: /*?sort=
disallow: /*.pdf$
allow: /admin/help/
disallow: /search
disallow: /tmp/
disallow: /private*
allow: /search/about
sitemap: https://www.example.com/sitemap.xml
";

fn decisions(c: &mut Criterion) {
    decision(c, "10 rules", ORDINARY, "/products/shoes/42-blue?colour=blue&size=9");
    decision(
        c,
        "10 rules, encoded path",
        ORDINARY,
        "/produkte/m%C3%BCtzen/%34%32?farbe=blau%2Fgr%C3%BCn",
    );
    for file in files::hostile() {
        decision(c, &file.name, &file.text, &file.paths[0]);
    }
}

/// The whole of it: the group, the path's normal form, the rule.
fn decision(c: &mut Criterion, name: &str, robots: &str, path: &str) {
    let robots = parse(robots);
    c.bench_function(&format!("decide: {name}"), |b| {
        b.iter(|| robots.decide(black_box(Some(TOKEN)), black_box(path.as_bytes())).verdict);
    });
}

/// One real question after the other, so that no file is as near as if it were asked alone.
fn real_decisions(c: &mut Criterion) {
    let files: Vec<_> = real().into_iter().step_by(STRIDE).collect();
    let parsed: Vec<_> = files.iter().map(|file| parse(&file.text)).collect();
    let mut questions = Vec::new();
    for (file, robots) in files.iter().zip(&parsed) {
        for agent in &file.agents {
            for (path, is_allowed) in file.paths.iter().zip(&agent.answers) {
                let verdict = robots.decide(Some(&agent.token), path.as_bytes()).verdict;
                assert_eq!(
                    verdict == Verdict::Allow,
                    *is_allowed,
                    "{}: {} {path}",
                    file.name,
                    agent.token
                );
                questions.push((robots, agent.token.as_str(), path.as_str()));
            }
        }
    }
    let mut questions = questions.into_iter().cycle();
    c.bench_function("decide: real files", |b| {
        let next = || questions.next().expect("there is always another one");
        b.iter_batched(
            next,
            |(robots, token, path)| robots.decide(Some(token), path.as_bytes()).verdict,
            BatchSize::SmallInput,
        );
    });
}

fn parsing(c: &mut Criterion) {
    let hostile = files::hostile();
    let files = hostile.iter().map(|file| (file.name.as_str(), file.text.as_str()));
    for (name, robots) in [("10 rules", ORDINARY)].into_iter().chain(files) {
        c.bench_function(&format!("parse: {name}"), |b| b.iter(|| parse(black_box(robots))));
    }
}

fn parse(text: &str) -> RobotsTxt {
    RobotsTxt::parse(text.as_bytes(), &Dialect { size_limit: usize::MAX, ..Dialect::RFC9309 })
}

/// The worst that is known: none may take more than ten milliseconds.
fn worst_decisions(c: &mut Criterion) {
    for shape in hostile::shapes() {
        decision(c, &format!("worst: {}", shape.name), &shape.file, &shape.path);
    }
}

criterion_group!(benches, decisions, real_decisions, worst_decisions, parsing);
criterion_main!(benches);

//! What a decision costs on a file already parsed, ordinary and hostile, and what parsing costs.

use std::fmt::Write as _;
use std::hint::black_box;

use courtesy::robots::{Dialect, Path, RobotsTxt};
use criterion::{Criterion, criterion_group, criterion_main};

const DIALECT: &Dialect = &Dialect::RFC9309;

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
    decision(c, "10 rules, encoded path", ORDINARY, "/produkte/m%C3%BCtzen/%34%32?farbe=blau%2Fgr%C3%BCn");
    decision(c, "24,000 rules", &many_rules(|n| format!("/section/{n}/")), "/section/x/page.html");
    decision(c, "200 stars, 8 KB path", &one_rule(&format!("/{}b", "*a".repeat(200))), &long_path("a"));
    decision(c, "24,000 wildcard rules", &many_rules(|n| format!("/*a{n}*b$")), "/section/a/page.html?a=1");
    decision(c, "24,000 wildcard rules, 8 KB path", &many_rules(|n| format!("/*aab{n}")), &long_path("ab"));
    decision(c, "24,000 groups of one agent", &many_groups(), "/section/x/page.html");
}

/// The whole of it: the group, the path's normal form, the rule.
fn decision(c: &mut Criterion, name: &str, robots: &str, path: &str) {
    let robots = RobotsTxt::parse(robots.as_bytes(), &Dialect { size_limit: usize::MAX, ..DIALECT.clone() });
    c.bench_function(&format!("decide: {name}"), |b| {
        b.iter(|| {
            let group = robots.group(black_box(Some("polite-crawler")))?;
            group.rule_for(&Path::new(black_box(path.as_bytes()), robots.dialect()))
        });
    });
}

fn parsing(c: &mut Criterion) {
    let many = many_rules(|n| format!("/section/{n}/*.html$"));
    for (name, robots) in [("10 rules", ORDINARY), ("24,000 rules", many.as_str())] {
        c.bench_function(&format!("parse: {name}"), |b| {
            b.iter(|| RobotsTxt::parse(black_box(robots.as_bytes()), DIALECT));
        });
    }
}

fn one_rule(pattern: &str) -> String {
    format!("user-agent: *\ndisallow: {pattern}\n")
}

fn many_rules(pattern: impl Fn(u32) -> String) -> String {
    (0..24_000).fold("user-agent: *\n".to_owned(), |mut file, n| {
        writeln!(file, "disallow: {}", pattern(n)).expect("a string takes everything");
        file
    })
}

fn many_groups() -> String {
    (0..24_000).fold(String::new(), |mut file, n| {
        writeln!(file, "user-agent: *\ndisallow: /{n}").expect("a string takes everything");
        file
    })
}

fn long_path(piece: &str) -> String {
    format!("/{}", piece.repeat(8 * 1024 / piece.len()))
}

criterion_group!(benches, decisions, parsing);
criterion_main!(benches);

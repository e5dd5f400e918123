//! No circles of imports between the files of `src/`: what two files need stands below both.
//!
//! Where the test fails, it prints the lines that close each circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Edge, Library};
use crate::source::root;

/// Circles that stand, each with the reason why untying it would make the code worse; five at most.
const EXCEPTIONS: &[(&[&str], &str)] = &[];

/// Files that name each other, by whatever way round.
type Circle = BTreeSet<String>;

#[test]
fn no_file_imports_one_that_imports_it() {
    let edges = Library::read(&root().join("src")).edges();
    let of_robots = Library::read(&root().join("crates/robots/src")).edges();
    assert!(edges.len() > 1000 && of_robots.len() > 50, "the source was not found");
    let mut circles = [circles(&edges), circles(&of_robots)].concat();
    let edges = [edges, of_robots].concat();
    circles.retain(|circle| !EXCEPTIONS.iter().any(|(files, _)| circle.iter().eq(files.iter())));
    circles.iter().for_each(|circle| print(circle, &edges));
    assert!(circles.is_empty() && EXCEPTIONS.len() <= 5, "{} circles, see above", circles.len());
}

/// The sets of files that reach each other, of more than one file, largest first.
fn circles(edges: &[Edge]) -> Vec<Circle> {
    let mut named = BTreeMap::<&str, BTreeSet<&str>>::new();
    for edge in edges {
        named.entry(&edge.from).or_default().insert(&edge.to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        named.keys().map(|file| (*file, reached(&named, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, others) in &reached {
        let is_back = |other: &&&str| reached.get(**other).is_some_and(|back| back.contains(file));
        let circle: Circle =
            others.iter().filter(is_back).map(|other| (*other).to_owned()).collect();
        circles.insert(circle);
    }
    let mut circles: Vec<_> = circles.into_iter().filter(|circle| circle.len() > 1).collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// All files that one names, directly or by others.
fn reached<'a>(named: &BTreeMap<&'a str, BTreeSet<&'a str>>, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&str> = named[file].iter().copied().collect();
    while let Some(next) = left.pop() {
        if reached.insert(next) {
            left.extend(named.get(next).into_iter().flatten());
        }
    }
    reached
}

/// A circle with the lines that make it one, those first by which the fewest names go.
fn print(circle: &Circle, edges: &[Edge]) {
    let mut ways = BTreeMap::<(&str, &str), BTreeSet<String>>::new();
    for edge in edges.iter().filter(|edge| circle.contains(&edge.from) && circle.contains(&edge.to))
    {
        let names = ways.entry((&edge.from, &edge.to)).or_default();
        names.insert(format!("{}:{}", edge.line, edge.name));
    }
    let mut ways: Vec<_> = ways.into_iter().collect();
    ways.sort_by_key(|(_, names)| names.len());
    println!(
        "\n{} files in a circle: {}",
        circle.len(),
        circle.iter().cloned().collect::<Vec<_>>().join(" ")
    );
    for ((from, to), names) in ways {
        println!("  {from} → {to}   {}", names.into_iter().collect::<Vec<_>>().join(" "));
    }
}

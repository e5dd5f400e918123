//! No circles of imports between the files of `src/`: what two files need stands below both.
//!
//! To see those that there are, with the lines that close them:
//! `cargo test --test architecture circles -- --nocapture`.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Edge, Library};
use crate::source::root;

/// How many files of each folder stand in circles. It may only shrink.
const ALLOWED: &str = include_str!("circles.txt");

/// Files that name each other, by whatever way round.
type Circle = BTreeSet<String>;

#[test]
fn circles_of_imports_become_fewer() {
    let edges = Library::read(&root().join("src")).edges();
    let circles = circles(&edges);
    let mut counts = BTreeMap::<&str, usize>::new();
    for circle in &circles {
        print(circle, &edges);
        for file in circle {
            *counts.entry(folder(file)).or_default() += 1;
        }
    }
    println!("\nfiles in circles: {counts:?}");
    let allowed = allowed();
    counts.retain(|folder, count| *count > allowed.get(folder).copied().unwrap_or_default());
    assert!(counts.is_empty(), "more files in circles than circles.txt allows: {counts:?}");
}

fn allowed() -> BTreeMap<&'static str, usize> {
    let lines = ALLOWED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pair = |line: &'static str| {
        let (folder, count) = line.split_once(' ').expect("a folder and a count");
        (folder, count.parse().expect("a count"))
    };
    lines.map(pair).collect()
}

fn folder(file: &str) -> &str {
    file.split_once('/').map_or("lib", |(folder, _)| folder)
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

//! Counts added and removed lines between two texts.

use std::collections::HashMap;

use crate::robots::{Dialect, lines};

/// Lines of `after` that are not in `before`, and the reverse, with multiplicity; moved lines count
/// as neither. Blanks around a line are ignored.
pub fn line_counts(before: &[u8], after: &[u8]) -> (u64, u64) {
    let mut balance: HashMap<&[u8], i64> = HashMap::new();
    let mut count = |text, step| {
        for (_, line) in lines(text, &Dialect::RFC9309) {
            let line = line.trim_ascii();
            if !line.is_empty() {
                *balance.entry(line).or_default() += step;
            }
        }
    };
    count(after, 1);
    count(before, -1);
    let sum = |sign: i64| balance.values().map(|more| (more * sign).max(0).unsigned_abs()).sum();
    (sum(1), sum(-1))
}

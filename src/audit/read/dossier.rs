//! A dossier: what a log has about one site, and of no other, as one tar file to be handed to its owner.
//! It has the lines of that site as they stand, those of the log that name no site, the evidence, and
//! of the other lines the nodes of the tree above them (RFC 6962), so that all hangs on a checkpoint.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write};

use serde::Serialize;
use tar::Builder;

use super::bundle::header;
use super::{CompiledFilter, Filter, Log, Scan, ScanError, ScanItem};
use crate::audit::checkpoint::Checkpoint;
use crate::audit::evidence::{Kind, LineRefs, name};
use crate::audit::tree::{self, Digest, Tiles};
use crate::audit::{
    AnyLine, BUNDLE_ENTRIES_MAX, Change, Content, EVIDENCE_BYTES_MAX, LineKind, Notice,
    checked_hash, print_time, split,
};
use crate::runtime::files;
use crate::types::sanitize::{digest, hex};

/// Bytes of the lines of one dossier, which are held in memory.
const LINES_BYTES_MAX: usize = 512 << 20;

/// What checks a dossier where there is no courtesy.
const VERIFIER: &str = include_str!("../../templates/dossier/verify.py");
const README: &str = include_str!("../../templates/dossier/README.txt");

/// Settings whose values name no site, agent, user or address.
const PLAIN_SETTINGS: [&str; 6] = ["robots.", "pace.", "deny.", "limits.", "store.", "log."];
const NAMING_SETTINGS: [&str; 2] = ["robots.contact", "pace.shared_addresses"];

/// Why there is no dossier.
#[derive(Debug, thiserror::Error)]
pub enum DossierError {
    #[error(transparent)]
    Read(#[from] ScanError),
    #[error("the dossier cannot be written")]
    Output(#[from] io::Error),
    #[error(
        "the lines of that site are too many for one dossier: choose a shorter time (--since, --until)"
    )]
    TooLarge,
    #[error("the log names no such site in that time")]
    Nothing,
    #[error("its lines are not those of its checkpoint; see courtesy audit verify")]
    OtherTree,
}

/// The lines of a log that a dossier has.
#[derive(Debug, Default)]
pub struct Selection {
    /// Each with its line end, as it stands, and its number.
    pub lines: Vec<(u64, Vec<u8>)>,
    bytes: usize,
    /// Lines that were changed or are none.
    pub damaged: u64,
}

/// The part of `dossier.json` that the nodes make.
#[derive(Debug, Serialize)]
struct Manifest<'a> {
    format: u32,
    key: Option<&'a str>,
    lacking: Vec<String>,
    nodes: BTreeMap<String, String>,
    origin: &'a str,
    published: &'a [String],
    since: Option<String>,
    until: Option<String>,
}

/// What a dossier is made of, beside its lines.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub origin: &'a str,
    pub filter: &'a Filter,
    /// Of which the lines are.
    pub checkpoint: &'a Checkpoint,
    /// As it is handed over: with its signature, where there is one.
    pub note: &'a str,
    /// The key of the log, as it names it.
    pub key: Option<&'a str>,
    /// Published ones, which the log is shown to go on from: their sizes and notes.
    pub published: &'a [(u64, String)],
    /// One page of HTML.
    pub report: &'a str,
}

impl Selection {
    /// The lines of `log` up to line `size` that are about the site of `filter`, and those of its time that name no
    /// site.
    ///
    /// # Errors
    ///
    /// The log cannot be read, or the lines are too many.
    pub fn of(log: &Log, filter: &Filter, size: u64) -> Result<Self, DossierError> {
        let compiled = CompiledFilter::new(filter.clone());
        let mut selection = Self::default();
        let mut scan = Scan::new(log.clone())?;
        let mut is_of_site = false;
        while let Some(item) = scan.next()? {
            let ScanItem::Lines(block) = item else {
                selection.damaged += 1;
                continue;
            };
            for line in block.lines() {
                let Some(seq) = whole_seq(line.bytes).filter(|seq| *seq <= size) else { continue };
                let is_about_it = is_about(&compiled, line.bytes);
                is_of_site |= is_about_it;
                if is_about_it || is_of_log(&compiled, line.bytes) {
                    selection.bytes += line.bytes.len() + 1;
                    if selection.bytes > LINES_BYTES_MAX {
                        return Err(DossierError::TooLarge);
                    }
                    selection.lines.push((seq, [line.bytes, b"\n"].concat()));
                }
            }
        }
        if is_of_site { Ok(selection) } else { Err(DossierError::Nothing) }
    }

    /// Writes the dossier.
    ///
    /// # Errors
    ///
    /// See [`DossierError`]. What is written by then is no dossier.
    pub fn write(
        &self,
        log: &Log,
        request: &Request<'_>,
        output: impl Write,
    ) -> Result<(), DossierError> {
        let mut tar = Tar(Builder::new(output));
        let nodes = self.nodes(log, request)?;
        let (evidence, lacking) = self.evidence(log)?;
        let time = |time: Option<_>| time.map(print_time);
        let manifest = Manifest {
            format: 1,
            key: request.key,
            lacking,
            nodes,
            origin: request.origin,
            published: &request.published.iter().map(|(_, note)| note.clone()).collect::<Vec<_>>(),
            since: time(request.filter.since),
            until: time(request.filter.until),
        };
        let manifest = serde_json::to_string_pretty(&manifest).expect("texts and numbers") + "\n";
        tar.put("README.txt", README.replace("ORIGIN", request.origin).as_bytes())?;
        tar.put("verify.py", VERIFIER.as_bytes())?;
        tar.put("report.html", request.report.as_bytes())?;
        tar.put("checkpoint.txt", request.note.as_bytes())?;
        tar.put("dossier.json", manifest.as_bytes())?;
        let lines: Vec<_> = self.lines.iter().map(|(_, line)| &line[..]).collect();
        tar.put("lines.jsonl", &lines.concat())?;
        for (name, content) in evidence {
            tar.put(&name, &content)?;
        }
        tar.0.into_inner()?.flush()?;
        Ok(())
    }

    /// The nodes above the lines that are not in it, each as high as it can be, by the leaves below it:
    /// `START-END`, counted from 0.
    fn nodes(
        &self,
        log: &Log,
        request: &Request<'_>,
    ) -> Result<BTreeMap<String, String>, DossierError> {
        let Checkpoint { head, root, .. } = request.checkpoint;
        let size = head.seq;
        // The tree of a published checkpoint is to be seen in this one.
        let splits = request.published.iter().map(|(size, _)| *size);
        let splits: BTreeSet<u64> = splits.filter(|split| (1..size).contains(split)).collect();
        let mut cover = Cover {
            leaves: Leaves::of(log, size)?,
            kept: self.lines.iter().map(|(seq, _)| seq - 1).collect(),
            splits,
            nodes: BTreeMap::new(),
        };
        let made = if size == 0 { None } else { Some(cover.walk(0, size)?) };
        if made != Some(*root) {
            return Err(DossierError::OtherTree);
        }
        Ok(cover.nodes)
    }

    /// The evidence that its lines name, as it is stored; and the names of what is not there.
    #[expect(clippy::type_complexity, reason = "a list of files, and one of names")]
    fn evidence(&self, log: &Log) -> Result<(Vec<(String, Vec<u8>)>, Vec<String>), DossierError> {
        let refs = self.lines.iter().filter_map(|(_, line)| LineRefs::of(line.trim_ascii_end()));
        let blobs = refs.flat_map(|refs| refs.blobs().collect::<Vec<_>>());
        // The settings in effect name all sites.
        let blobs = blobs.filter(|(kind, _)| *kind != Kind::Settings);
        let names: BTreeSet<_> = blobs.map(|(kind, sha256)| name(kind, &hex(&sha256))).collect();
        if names.len() > BUNDLE_ENTRIES_MAX {
            return Err(DossierError::TooLarge);
        }
        let (mut found, mut lacking) = (Vec::new(), Vec::new());
        for name in names {
            match files::read(&log.dir().join(&name), EVIDENCE_BYTES_MAX as usize) {
                Ok(content) => found.push((name, content)),
                Err(_) => lacking.push(name),
            }
        }
        Ok((found, lacking))
    }
}

/// The number of a line that is as it was written.
fn whole_seq(line: &[u8]) -> Option<u64> {
    checked_hash(line).ok()?;
    Some(AnyLine::parse(line).ok()?.seq)
}

/// Whether a line is about the site, and of the time.
fn is_about(compiled: &CompiledFilter, line: &[u8]) -> bool {
    match LineKind::of(line) {
        Some(LineKind::Record(_)) => compiled.admits(line),
        Some(LineKind::Notice(_)) => compiled.admits_notice(line, true),
        _ => false,
    }
}

/// Whether a line is about the log or the proxy, of the time, and names no site, agent, user or address.
fn is_of_log(compiled: &CompiledFilter, line: &[u8]) -> bool {
    let Ok(Content::Notice(notice)) = Content::parse(line) else { return false };
    let is_plain = match &notice {
        Notice::Stopped(_) | Notice::Torn(_) | Notice::Pruned(_) | Notice::Rewound(_) => true,
        Notice::Totals(_) | Notice::Pulse(_) | Notice::Checkpointed(_) => true,
        Notice::SiteCounts(counts) => counts.origin.is_none(),
        Notice::Started(started) => {
            started.exemptions.is_empty()
                && are_plain(started.changes.as_deref().unwrap_or_default())
        }
        Notice::SettingsChanged(changed) => are_plain(&changed.changes),
        // It may have the path of a directory in it.
        Notice::Gap(_) => true,
        _ => false,
    };
    is_plain && compiled.covers(notice.time(), notice.time())
}

/// Whether settings of these names have no names in their values.
fn are_plain(changes: &[Change]) -> bool {
    changes.iter().all(|Change { key, .. }| {
        let begins = |names: &[&str]| names.iter().any(|name| key.starts_with(name));
        begins(&PLAIN_SETTINGS) && !begins(&NAMING_SETTINGS)
    })
}

/// The tree of a log, of which some lines are to be seen.
struct Cover {
    leaves: Leaves,
    /// Of the lines that are to be seen, the leaves.
    kept: BTreeSet<u64>,
    /// Sizes of earlier trees of the log.
    splits: BTreeSet<u64>,
    nodes: BTreeMap<String, String>,
}

impl Cover {
    /// The node above the leaves from `start` to `end`. They are asked for in their order.
    fn walk(&mut self, start: u64, end: u64) -> Result<Digest, DossierError> {
        let is_open = self.kept.range(start..end).next().is_some()
            || self.splits.range(start + 1..end).next().is_some();
        if !is_open {
            let hash = self.hidden(start, end)?;
            self.nodes.insert(format!("{start}-{end}"), hex(&hash));
            return Ok(hash);
        }
        if end - start == 1 {
            return self.leaves.next();
        }
        let middle = start + half(end - start);
        let left = self.walk(start, middle)?;
        Ok(tree::node(&left, &self.walk(middle, end)?))
    }

    fn hidden(&mut self, start: u64, end: u64) -> Result<Digest, DossierError> {
        if end - start == 1 {
            return self.leaves.next();
        }
        let middle = start + half(end - start);
        let left = self.hidden(start, middle)?;
        Ok(tree::node(&left, &self.hidden(middle, end)?))
    }
}

/// The largest power of two below a number (RFC 6962 §2.1).
const fn half(count: u64) -> u64 {
    1 << (count - 1).ilog2()
}

/// The leaves of a log in their order: those of pruned lines by the tiles, the others by the lines.
struct Leaves {
    pruned: std::vec::IntoIter<Digest>,
    scan: Scan,
    ahead: VecDeque<Digest>,
}

impl Leaves {
    fn of(log: &Log, size: u64) -> Result<Self, DossierError> {
        let scan = Scan::new(log.clone())?;
        let pruned = scan.first_seq().unwrap_or(size + 1).saturating_sub(1);
        let pruned: Vec<_> = Tiles::of(&log.dir()).each_leaf(pruned).collect();
        Ok(Self { pruned: pruned.into_iter(), scan, ahead: VecDeque::new() })
    }

    fn next(&mut self) -> Result<Digest, DossierError> {
        if let Some(leaf) = self.pruned.next() {
            return Ok(leaf);
        }
        while self.ahead.is_empty() {
            let Some(item) = self.scan.next()? else { return Err(DossierError::OtherTree) };
            let ScanItem::Lines(block) = item else { continue };
            let hash = |line: &[u8]| split(line).and_then(|(_, hash)| digest(hash));
            let hashes = block.lines().map(|line| hash(line.bytes));
            self.ahead.extend(
                hashes.map(|hash| hash.map_or_else(tree::absent_leaf, |it| tree::leaf(&it))),
            );
        }
        self.ahead.pop_front().ok_or(DossierError::OtherTree)
    }
}

struct Tar<W: Write>(Builder<W>);

impl<W: Write> Tar<W> {
    fn put(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.0.append(&header(name, content.len() as u64)?, content)
    }
}

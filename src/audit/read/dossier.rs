//! A dossier: what a log has about one site, and of no other, as one tar file to be handed to its owner.
//! It has the lines of that site as they stand, those of the log that name no site, the evidence, and
//! of the other lines the nodes of the tree above them (RFC 6962), so that all hangs on a checkpoint.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tar::Builder;

use super::block::LINES_NAME;
use super::bundle::header;
use super::{CompiledFilter, Filter, Log, Scan, ScanError, ScanItem};
use crate::audit::checkpoint::{Checkpoint, SignedCheckpoint};
use crate::audit::evidence::{BlobStore, Found, Kind, LineRefs, name};
use crate::audit::record::verifier_key::VerifierKey;
use crate::audit::tree::{self, Digest, Tiles};
use crate::audit::{
    AnyLine, BUNDLE_ENTRIES_MAX, Change, Content, EVIDENCE_BYTES_MAX, LineKind, Notice,
    checked_hash, print_time, split,
};
use crate::runtime::files;
use crate::types::sanitize::{digest, hex};

/// Bytes of the lines of one dossier, which are held in memory.
const LINES_BYTES_MAX: usize = 512 << 20;

/// The file of a dossier that says what it is of.
pub const MANIFEST_NAME: &str = "dossier.json";
/// That of the checkpoint that all hangs on.
pub const CHECKPOINT_NAME: &str = "checkpoint.txt";

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

/// `dossier.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    /// Of this file.
    format: u32,
    /// The key of the log, as it names it.
    key: Option<String>,
    /// Evidence that lines name and that was not there.
    lacking: Vec<String>,
    /// By `START-END`, the leaves below it, counted from 0.
    nodes: BTreeMap<String, String>,
    origin: String,
    /// Notes of published checkpoints.
    published: Vec<String>,
    since: Option<String>,
    until: Option<String>,
}

/// What a dossier is made of, beside its lines.
#[derive(Clone, Copy, Debug)]
pub struct DossierRequest<'a> {
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
        request: &DossierRequest<'_>,
        output: impl Write,
    ) -> Result<(), DossierError> {
        let mut tar = Tar(Builder::new(output));
        let nodes = self.nodes(log, request)?;
        let (evidence, lacking) = self.evidence(log)?;
        let time = |time: Option<_>| time.map(print_time);
        let manifest = Manifest {
            format: 1,
            key: request.key.map(str::to_owned),
            lacking,
            nodes,
            origin: request.origin.to_owned(),
            published: request.published.iter().map(|(_, note)| note.clone()).collect(),
            since: time(request.filter.since),
            until: time(request.filter.until),
        };
        let manifest = serde_json::to_string_pretty(&manifest).expect("texts and numbers") + "\n";
        tar.put("README.txt", README.replace("ORIGIN", request.origin).as_bytes())?;
        tar.put("verify.py", VERIFIER.as_bytes())?;
        tar.put("report.html", request.report.as_bytes())?;
        tar.put(CHECKPOINT_NAME, request.note.as_bytes())?;
        tar.put(MANIFEST_NAME, manifest.as_bytes())?;
        let lines: Vec<_> = self.lines.iter().map(|(_, line)| &line[..]).collect();
        tar.put(LINES_NAME, &lines.concat())?;
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
        request: &DossierRequest<'_>,
    ) -> Result<BTreeMap<String, String>, DossierError> {
        let Checkpoint { head, root, .. } = request.checkpoint;
        let size = head.seq;
        // The tree of a published checkpoint is to be seen in this one.
        let splits = request.published.iter().map(|(size, _)| *size);
        let splits: BTreeSet<u64> = splits.filter(|split| (1..size).contains(split)).collect();
        let mut cover = TreeCover {
            leaves: LeafReader::of(log, size)?,
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
        // Its reason may name the directory of the log, and no site.
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
struct TreeCover {
    leaves: LeafReader,
    /// Of the lines that are to be seen, the leaves.
    kept: BTreeSet<u64>,
    /// Sizes of earlier trees of the log.
    splits: BTreeSet<u64>,
    nodes: BTreeMap<String, String>,
}

impl TreeCover {
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
struct LeafReader {
    known: std::vec::IntoIter<Digest>,
    scan: Option<Scan>,
    ahead: VecDeque<Digest>,
}

impl LeafReader {
    fn of(log: &Log, size: u64) -> Result<Self, DossierError> {
        let scan = Scan::new(log.clone())?;
        let pruned = scan.first_seq().unwrap_or(size + 1).saturating_sub(1);
        let pruned: Vec<_> = Tiles::of(&log.dir()).each_leaf(pruned).collect();
        Ok(Self { known: pruned.into_iter(), scan: Some(scan), ahead: VecDeque::new() })
    }

    fn next(&mut self) -> Result<Digest, DossierError> {
        if let Some(leaf) = self.known.next() {
            return Ok(leaf);
        }
        while self.ahead.is_empty() {
            let scan = self.scan.as_mut().ok_or(DossierError::OtherTree)?;
            let Some(item) = scan.next()? else { return Err(DossierError::OtherTree) };
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

/// What a dossier was found to be that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedDossier {
    /// Of the site.
    pub origin: String,
    /// The lines in it.
    pub lines: u64,
    /// The pieces of evidence in it.
    pub evidence: u64,
    /// The origin line of its checkpoint, which names the log.
    pub checkpoint: String,
    /// Lines of that log.
    pub size: u64,
    /// The key that has signed it; none: it is not signed.
    pub key: Option<String>,
    /// Whether that key was asked for, and is not only the one that the dossier names.
    pub is_key_given: bool,
    /// Sizes of the published checkpoints that the log goes on from.
    pub published: Vec<u64>,
}

/// Why a dossier does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DossierFault(String);

/// Whether there is a dossier in `dir`.
pub fn is_in(dir: &Path) -> bool {
    dir.join(MANIFEST_NAME).is_file()
}

/// Checks the dossier in `dir` against these keys or, without any, the one that it names.
///
/// # Errors
///
/// What does not hold.
pub fn check(dir: &Path, keys: &[VerifierKey]) -> Result<CheckedDossier, DossierFault> {
    let content = |name: &str| match files::read(&dir.join(name), LINES_BYTES_MAX) {
        Ok(content) => Ok(content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(DossierFault(format!("{name} is missing")))
        }
        Err(error) => Err(DossierFault(format!("{name} cannot be read: {error}"))),
    };
    let manifest: Manifest = serde_json::from_slice(&content(MANIFEST_NAME)?)
        .map_err(|error| DossierFault(format!("{MANIFEST_NAME}: {error}")))?;
    let note = String::from_utf8(content(CHECKPOINT_NAME)?)
        .map_err(|_| DossierFault(format!("{CHECKPOINT_NAME} is no text")))?;
    let key = manifest.key.as_deref().map(str::parse::<VerifierKey>).transpose();
    let own = key.map_err(|error| DossierFault(format!("its key is none: {error}")))?;
    let is_key_given = !keys.is_empty();
    let keys = if is_key_given { keys } else { own.as_slice() };
    let (checkpoint, key) = signed_by(&note, keys)?;
    let mut tree = KnownTree { leaves: BTreeMap::new(), nodes: &manifest.nodes };
    let mut evidence = DossierEvidence { blobs: BlobStore::of(dir), known: BTreeSet::new() };
    let lines = content(LINES_NAME)?;
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        evidence.check(line, &manifest)?;
        let (seq, leaf) = leaf_of(line, &manifest.origin)?;
        tree.leaves.insert(seq - 1, leaf);
    }
    let size = checkpoint.head.seq;
    if tree.leaves.last_key_value().is_some_and(|(last, _)| *last >= size) {
        return Err(DossierFault("it has lines behind its checkpoint".into()));
    }
    if size == 0 || tree.root(0, size)? != checkpoint.root {
        return Err(DossierFault(
            "its lines are not those of the log that the checkpoint is of".into(),
        ));
    }
    let mut published = Vec::new();
    for note in &manifest.published {
        let (earlier, _) = signed_by(note, keys)?;
        let before = earlier.head.seq;
        if before == 0 || before > size || tree.root(0, before)? != earlier.root {
            return Err(DossierFault(format!(
                "the log does not go on from the checkpoint of line {before}"
            )));
        }
        published.push(before);
    }
    let (lines, evidence) = (tree.leaves.len() as u64, evidence.known.len() as u64);
    Ok(CheckedDossier {
        origin: manifest.origin,
        lines,
        evidence,
        checkpoint: checkpoint.origin,
        size,
        is_key_given,
        key,
        published,
    })
}

/// The evidence of a dossier, and the names of what was found to be as it is named.
struct DossierEvidence {
    blobs: BlobStore,
    known: BTreeSet<String>,
}

impl DossierEvidence {
    /// What a line names is there, or was said to be lacking.
    fn check(&mut self, line: &[u8], manifest: &Manifest) -> Result<(), DossierFault> {
        let refs = LineRefs::of(line);
        for (kind, sha256) in refs.iter().flat_map(LineRefs::blobs) {
            let (sha256, name) = (hex(&sha256), name(kind, &hex(&sha256)));
            if kind == Kind::Settings || self.known.contains(&name) {
                continue;
            }
            match self.blobs.get(kind, &sha256) {
                Ok(Found::Content(_)) => _ = self.known.insert(name),
                Ok(Found::Missing) if manifest.lacking.contains(&name) => {}
                Ok(Found::Missing) => return Err(DossierFault(format!("{name} is missing"))),
                Ok(Found::Damaged(why)) => {
                    return Err(DossierFault(format!("{name} has another content: {why}")));
                }
                Err(error) => {
                    return Err(DossierFault(format!("{name} cannot be read: {error}")));
                }
            }
        }
        Ok(())
    }
}

/// The checkpoint of a note, and the key that has signed it.
fn signed_by(
    note: &str,
    keys: &[VerifierKey],
) -> Result<(Checkpoint, Option<String>), DossierFault> {
    let no_checkpoint = || DossierFault("its checkpoint is none".into());
    if keys.is_empty() {
        let text = note.strip_suffix('\n').unwrap_or(note);
        return Checkpoint::parse(text).map(|it| (it, None)).ok_or_else(no_checkpoint);
    }
    let signed = SignedCheckpoint::parse(note).ok_or_else(no_checkpoint)?;
    match keys.iter().find(|key| signed.is_signed_by(key)) {
        Some(key) => Ok((signed.checkpoint, Some(key.to_string()))),
        None => Err(DossierFault(format!("its checkpoint is not signed by {}", keys[0]))),
    }
}

/// The number and the leaf of a line that is whole, and of no other site.
fn leaf_of(line: &[u8], origin: &str) -> Result<(u64, Digest), DossierFault> {
    let changed = || DossierFault("a line is not the text that its hash was made of".into());
    let hash = checked_hash(line).ok().and_then(digest).ok_or_else(changed)?;
    let AnyLine { seq, .. } = AnyLine::parse(line).map_err(|_| changed())?;
    let of: OfSite = serde_json::from_slice(line).map_err(|_| changed())?;
    if of.origin.is_some_and(|of| of != origin) || seq == 0 {
        return Err(DossierFault(format!("line {seq} is of another site")));
    }
    Ok((seq, tree::leaf(&hash)))
}

#[derive(Deserialize)]
struct OfSite {
    #[serde(default)]
    origin: Option<String>,
}

/// A tree of which some leaves are known, and of the others the nodes above them.
struct KnownTree<'a> {
    leaves: BTreeMap<u64, Digest>,
    nodes: &'a BTreeMap<String, String>,
}

impl KnownTree<'_> {
    /// The node above the leaves from `start` to `end`.
    fn root(&self, start: u64, end: u64) -> Result<Digest, DossierFault> {
        if let Some(node) = self.nodes.get(&format!("{start}-{end}")) {
            return digest(node).ok_or_else(|| DossierFault("a node of its tree is none".into()));
        }
        if end - start == 1 {
            let leaf = self.leaves.get(&start).copied();
            return leaf
                .ok_or_else(|| DossierFault(format!("line {end} is missing from its tree")));
        }
        let middle = start + half(end - start);
        Ok(tree::node(&self.root(start, middle)?, &self.root(middle, end)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaves(count: u64) -> Vec<Digest> {
        (0..count).map(|number| tree::leaf(&[number as u8; 32])).collect()
    }

    fn root(leaves: &[Digest]) -> Digest {
        match leaves {
            [leaf] => *leaf,
            _ => {
                let (left, right) = leaves.split_at(half(leaves.len() as u64) as usize);
                tree::node(&root(left), &root(right))
            }
        }
    }

    proptest! {
        /// Whatever lines are kept and whatever was published: the rest is one node a gap, and both roots follow.
        #[test]
        fn some_lines_and_the_nodes_above_the_others_give_the_root(
            count in 1..200_u64,
            kept in prop::collection::btree_set(0..200_u64, 0..20),
            split in 1..200_u64,
        ) {
            let all = leaves(count);
            let kept: BTreeSet<u64> = kept.into_iter().filter(|leaf| *leaf < count).collect();
            let splits: BTreeSet<u64> = [split].into_iter().filter(|split| *split < count).collect();
            let mut cover = TreeCover {
                leaves: LeafReader { known: all.clone().into_iter(), scan: None, ahead: VecDeque::new() },
                kept: kept.clone(),
                splits: splits.clone(),
                nodes: BTreeMap::new(),
            };
            let made = cover.walk(0, count).unwrap();
            prop_assert_eq!(made, root(&all));
            let known = kept.iter().map(|leaf| (*leaf, all[*leaf as usize])).collect();
            let known = KnownTree { leaves: known, nodes: &cover.nodes };
            prop_assert_eq!(known.root(0, count).unwrap(), made);
            for split in splits {
                prop_assert_eq!(known.root(0, split).unwrap(), root(&all[..split as usize]));
            }
            let log = u64::from(count.ilog2()) + 2;
            prop_assert!(cover.nodes.len() as u64 <= (kept.len() as u64 + 2) * log);
        }
    }
}

//! Holds checkpoints against the tree of the lines, as these are read. Tiles beside the log are
//! believed of lines alone that retention has removed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::audit::Head;
use crate::audit::checkpoint::SignedCheckpoint;
use crate::audit::record::verifier_key::VerifierKey;
use crate::audit::tree::{Digest, Tiles, Tree, absent_leaf, leaf};
use crate::types::sanitize::digest;

/// SignerKeys of a log that are kept apart: it has one, as a rule.
const KEYS_NAMED_MAX: usize = 16;

/// The tree of the lines read so far.
#[derive(Debug, Default)]
pub(super) struct TreeRoots {
    /// None: a line before the next is missing, and with it all that is to come.
    tree: Option<Tree>,
    /// The roots that are to be known, by the sizes of their trees.
    wanted: BTreeMap<u64, Option<Digest>>,
    tiles: Option<Tiles>,
    /// The lines before the first, of which the hash alone is kept.
    pub kept: u64,
    /// The first of them of which not even that is.
    lacking: Option<u64>,
}

impl TreeRoots {
    /// Of the trees of these sizes. `tiles` are believed of what comes before the first line.
    pub(super) fn new(sizes: impl IntoIterator<Item = u64>, tiles: Option<Tiles>) -> Self {
        let wanted = sizes.into_iter().map(|size| (size, None)).collect();
        Self { wanted, tiles, ..Self::default() }
    }

    /// The log begins with the line `first`.
    pub(super) fn begin(&mut self, first: u64) {
        self.tree = Some(Tree::default());
        let before = first - 1;
        for leaf in self.tiles.take().iter().flat_map(|tiles| tiles.each_leaf(before)) {
            self.kept += 1;
            if self.lacking.is_none() && leaf == absent_leaf() {
                self.lacking = Some(self.kept);
            }
            self.push(leaf);
        }
        if self.kept < before {
            self.tree = None;
        }
    }

    /// The next line that can be relied on; `prev` is the hash of the one before it.
    pub(super) fn line(&mut self, seq: u64, hash: &str, prev: &str) {
        let size = self.tree.as_ref().map(Tree::size);
        if size == seq.checked_sub(2) {
            self.hash(prev);
        }
        match self.tree.as_ref().map(Tree::size) {
            Some(size) if size + 1 == seq => self.hash(hash),
            _ => self.tree = None,
        }
    }

    /// The root of the lines before the line `seq`, where they are all known.
    pub(super) fn before(&self, seq: u64) -> Option<Digest> {
        let tree = self.tree.as_ref().filter(|tree| tree.size() + 1 == seq)?;
        self.lacking.is_none().then(|| tree.root())
    }

    /// The root of the first `size` lines; none where they are not all known.
    pub(super) fn of(&self, size: u64) -> Option<Digest> {
        let root = self.wanted.get(&size).copied().flatten()?;
        self.lacking.is_none_or(|lacking| size < lacking).then_some(root)
    }

    fn hash(&mut self, hash: &str) {
        match digest(hash) {
            Some(hash) => self.push(leaf(&hash)),
            None => self.tree = None,
        }
    }

    fn push(&mut self, leaf: Digest) {
        let Some(tree) = &mut self.tree else { return };
        tree.push(leaf);
        if let Some(root) = self.wanted.get_mut(&tree.size()) {
            *root = Some(tree.root());
        }
    }
}

/// Whose signature a checkpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SignedBy {
    /// Of a key that was given.
    GivenKey,
    /// Of the key that the log itself names, which says nothing of whose it is.
    LogKey,
    /// Of none of these.
    Other,
}

/// The keys by which signatures are judged.
#[derive(Debug, Default)]
pub(super) struct SignerKeys {
    pub given: Vec<VerifierKey>,
    /// Those that the log names.
    pub named: BTreeSet<VerifierKey>,
}

impl SignerKeys {
    /// The log names a key.
    pub(super) fn name(&mut self, key: Option<&VerifierKey>) {
        if self.named.len() < KEYS_NAMED_MAX {
            self.named.extend(key.cloned());
        }
    }

    /// With keys given, no other is believed.
    pub(super) fn judge(&self, checkpoint: &SignedCheckpoint) -> SignedBy {
        let is_signed = |key: &VerifierKey| checkpoint.is_signed_by(key);
        if self.given.iter().any(is_signed) {
            SignedBy::GivenKey
        } else if self.given.is_empty() && self.named.iter().any(is_signed) {
            SignedBy::LogKey
        } else {
            SignedBy::Other
        }
    }
}

/// What is wrong with a checkpoint of the log itself, which stands behind the line `before`; none,
/// and its signer, where nothing is.
pub(super) fn judge_own(
    note: &str,
    before: &Head,
    root: Option<Digest>,
    keys: &SignerKeys,
) -> Result<SignedBy, &'static str> {
    let Some(signed) = SignedCheckpoint::parse(note) else { return Err("it is none") };
    if signed.checkpoint.head != *before {
        return Err("it is of another line");
    }
    if root.is_some_and(|root| root != signed.checkpoint.root) {
        return Err("its root is that of other lines");
    }
    match keys.judge(&signed) {
        SignedBy::Other if !keys.given.is_empty() => {
            Err("it is not signed by the key that was given")
        }
        SignedBy::Other if !keys.named.is_empty() => {
            Err("it is not signed by the key that the log names")
        }
        by => Ok(by),
    }
}

//! Proofs by the tree of a log (RFC 6962 §2.1.1, §2.1.2): that it has a line, and that an earlier tree
//! is the beginning of a later one. Hashes come from tiles, as far as these go, and behind them from
//! the lines. Tiles are not believed: each proof is checked before it is given.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::Path;

use ct_merkle::{
    ConsistencyProof, InclusionProof, RootHash, indices_for_consistency_proof,
    indices_for_inclusion_proof,
};
use sha2::Sha256;

use crate::audit::checkpoint::Checkpoint;
use crate::audit::record::chain::RECORD_SEQ_MAX;
use crate::audit::tree::{self, Digest, TILE_HEIGHT, Tiles, Tree, perfect};

/// Tiles that are held at once: 8 KiB each.
const TILES_HELD_MAX: usize = 1024;

/// Hashes from the bottom upwards, in the order of RFC 6962.
pub type Proof = Vec<Digest>;

/// Whether the tree with this root, of `size` lines, has a line of the number `seq` with this hash.
pub fn check_line(
    size: u64,
    root: &Digest,
    seq: u64,
    line_hash: &Digest,
    proof: &[Digest],
) -> bool {
    let Ok(proof) = InclusionProof::try_from_bytes(proof.as_flattened().to_vec()) else {
        return false;
    };
    let is_of_tree = (1..=size).contains(&seq) && size <= RECORD_SEQ_MAX;
    is_of_tree && root_of(size, root).verify_inclusion(line_hash, seq - 1, &proof).is_ok()
}

/// Whether the tree `earlier`, its size and its root, is the beginning of the tree `later`.
pub fn check_beginning(earlier: (u64, &Digest), later: (u64, &Digest), proof: &[Digest]) -> bool {
    let Ok(proof) = ConsistencyProof::try_from_bytes(proof.as_flattened().to_vec()) else {
        return false;
    };
    let [earlier, later] = [earlier, later].map(|(size, root)| root_of(size, root));
    later.num_leaves() <= RECORD_SEQ_MAX && later.verify_consistency(&earlier, &proof).is_ok()
}

fn root_of(size: u64, root: &Digest) -> RootHash<Sha256> {
    RootHash::new((*root).into(), size)
}

/// The tree of a log as a checkpoint has it, to make proofs of.
#[derive(Debug)]
pub struct LogTree {
    size: u64,
    root: Digest,
    tiles: Tiles,
    /// The leaves behind the whole tiles.
    rest: Vec<Digest>,
    held: RefCell<HashMap<tree::Place, Vec<Digest>>>,
    /// Nodes above tiles, by height and number.
    nodes: RefCell<HashMap<(u32, u64), Digest>>,
}

impl LogTree {
    /// The tree of the log in `dir` that `checkpoint` is of. Memory holds 32 bytes for each line that
    /// is in no whole tile, as a rule those of the file that is written, and 8 MiB of tiles.
    ///
    /// # Errors
    ///
    /// The files cannot be read; [`ErrorKind::InvalidData`]: they do not have the root of the
    /// checkpoint, as after tampering.
    pub fn open(dir: &Path, checkpoint: &Checkpoint) -> io::Result<Self> {
        let size = checkpoint.head.seq;
        let tiles = Tiles::of(dir);
        // If not with the tiles, then perhaps by all lines.
        for kept in [tiles.leaves(size) >> TILE_HEIGHT << TILE_HEIGHT, 0] {
            let Ok(mut tree) = Tree::of_tiles(&tiles, kept) else { continue };
            let mut rest = Vec::new();
            let mut take = |(level, _): tree::Place, leaves: &[Digest]| {
                rest.extend_from_slice(if level == 0 { leaves } else { &[] });
                Ok(())
            };
            tree.extend(dir, size, &|| false, &mut take)?;
            rest.extend_from_slice(tree.rest());
            if tree.root() == checkpoint.root {
                let (held, nodes) = (RefCell::default(), RefCell::default());
                return Ok(Self { size, root: checkpoint.root, tiles, rest, held, nodes });
            }
        }
        Err(damaged(format!("lines 1 to {size} in {} have another root", dir.display())))
    }

    /// That the tree has the line `seq`, of which `line_hash` is the hash: for [`check_line`].
    ///
    /// # Errors
    ///
    /// It has no such line; a tile cannot be read, or was changed.
    pub fn prove_line(&self, seq: u64, line_hash: &Digest) -> io::Result<Proof> {
        self.check_has(seq)?;
        let proof = self.nodes(indices_for_inclusion_proof(self.size, seq - 1))?;
        if check_line(self.size, &self.root, seq, line_hash, &proof) {
            return Ok(proof);
        }
        Err(damaged(format!("line {seq} is not that of the tree")))
    }

    /// That the tree of `earlier` is the beginning of this one: for [`check_beginning`].
    ///
    /// # Errors
    ///
    /// It is not; a tile cannot be read, or was changed.
    pub fn prove_beginning(&self, earlier: &Checkpoint) -> io::Result<Proof> {
        let Checkpoint { head, root, .. } = earlier;
        self.check_has(head.seq)?;
        let proof = self.nodes(indices_for_consistency_proof(head.seq, self.size - head.seq))?;
        if check_beginning((head.seq, root), (self.size, &self.root), &proof) {
            return Ok(proof);
        }
        Err(damaged(format!("the checkpoint of line {} is of another history", head.seq)))
    }

    fn check_has(&self, seq: u64) -> io::Result<()> {
        if (1..=self.size).contains(&seq) {
            return Ok(());
        }
        let problem = format!("the tree has {} lines, and no line {seq}", self.size);
        Err(io::Error::new(ErrorKind::InvalidInput, problem))
    }

    /// Nodes by their index in a tree that is an array (RFC 9420, appendix C): leaves have even ones,
    /// and one above has as many ones at its end as it is high.
    fn nodes(&self, indices: Vec<u64>) -> io::Result<Proof> {
        let node = |index: u64| {
            let height = index.trailing_ones();
            let first = index >> (height + 1) << height;
            self.range(first, (first + (1 << height)).min(self.size))
        };
        indices.into_iter().map(node).collect()
    }

    /// The root of the leaves from `first` to before `end`, counted from 0 (RFC 6962 §2.1).
    fn range(&self, first: u64, end: u64) -> io::Result<Digest> {
        let length = end - first;
        let height = length.ilog2();
        if length.is_power_of_two() {
            return self.node(height, first >> height);
        }
        let middle = first + (1 << height);
        Ok(tree::node(&self.range(first, middle)?, &self.range(middle, end)?))
    }

    /// A node that has all the leaves of its height.
    fn node(&self, height: u32, n: u64) -> io::Result<Digest> {
        let kept = self.size - self.rest.len() as u64;
        if height == 0 && n >= kept {
            return Ok(self.rest[(n - kept) as usize]);
        }
        if height < TILE_HEIGHT && n << height < kept {
            return self.of_tile((0, n << height >> TILE_HEIGHT), height, n);
        }
        if let Some(node) = self.nodes.borrow().get(&(height, n)) {
            return Ok(*node);
        }
        let level = (height / TILE_HEIGHT) as usize;
        let place = (level, n << (height % TILE_HEIGHT) >> TILE_HEIGHT);
        let is_in_tile = level > 0 && (place.1 + 1) << (TILE_HEIGHT * (level as u32 + 1)) <= kept;
        let node = if is_in_tile {
            self.of_tile(place, height % TILE_HEIGHT, n)?
        } else {
            tree::node(&self.node(height - 1, 2 * n)?, &self.node(height - 1, 2 * n + 1)?)
        };
        self.nodes.borrow_mut().insert((height, n), node);
        Ok(node)
    }

    /// A node so high above the hashes of a whole tile.
    fn of_tile(&self, place: tree::Place, height: u32, n: u64) -> io::Result<Digest> {
        let mut held = self.held.borrow_mut();
        if held.len() >= TILES_HELD_MAX {
            held.clear();
        }
        let tile = match held.get(&place) {
            Some(tile) => tile,
            None => {
                let tile = self.tiles.whole(place)?;
                held.entry(place).or_insert(tile)
            }
        };
        let first = (n << height) as usize % tile.len();
        Ok(perfect(&tile[first..first + (1 << height)]))
    }
}

fn damaged(problem: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, problem)
}

//! The Merkle tree of a log (RFC 6962 §2.1): a root shows all of its lines, and shows one of them, or
//! an earlier root, with a few hashes. An entry is the 32 bytes of a line's `hash`, so a leaf is
//! SHA-256(0x00 ‖ hash): who has checked a line's hash has its leaf with one block more, and lines of
//! any version have a tree. A line that is in no file, and of which no hash is kept, is an entry of
//! no bytes.
//!
//! The leaves of closed files are kept in `tiles/` beside them, laid out as C2SP tlog-tiles has them
//! below `tile/`: 256 hashes in a file, and so on upwards. They follow from the lines and are made
//! anew where they are missing; of lines that retention has removed they are what is left.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::segment::{self, FoundLine, write_whole};
use super::{AnyLine, LISTINGS_MAX, TREE_LINES_ABSENT_MAX, split};
use crate::types::sanitize::digest;

/// A SHA-256.
pub type Digest = [u8; 32];

/// The directory of the tiles, in that of the log.
pub const TILES_NAME: &str = "tiles";

/// Hashes of a whole tile.
pub const TILE_WIDTH: usize = 256;
/// Of the tree that a whole tile is.
pub const TILE_HEIGHT: u32 = TILE_WIDTH.ilog2();
const HASH_BYTES: usize = 32;
/// Lines that are read before it is looked again whether to go on.
const LINES_UNASKED: u64 = 1 << 14;

/// The leaf of a line with this hash.
pub fn leaf(line_hash: &Digest) -> Digest {
    Sha256::new().chain_update([0]).chain_update(line_hash).finalize().into()
}

/// The leaf of a line that is nowhere.
pub fn absent_leaf() -> Digest {
    Sha256::digest([0]).into()
}

/// The node above two others.
pub fn node(left: &Digest, right: &Digest) -> Digest {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// The root of a tree with these nodes at one height; a power of two of them.
pub fn perfect(nodes: &[Digest]) -> Digest {
    let mut row = nodes.to_vec();
    while row.len() > 1 {
        row = row.as_chunks::<2>().0.iter().map(|[left, right]| node(left, right)).collect();
    }
    row.first().copied().unwrap_or_else(absent_leaf)
}

/// A tree that grows: its right edge, which gives its root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Leaves so far.
    size: u64,
    /// Of each level of tiles, the hashes that fill none yet: at most 255.
    rows: Vec<Vec<Digest>>,
    /// Leaves of lines that were nowhere when it was extended.
    absent: u64,
}

/// A place in the tiling: the level from the leaves, and the number in it from the left.
pub type Place = (usize, u64);

impl Tree {
    /// How many leaves it has.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Whether all lines by which it was extended were there.
    pub const fn is_whole(&self) -> bool {
        self.absent == 0
    }

    /// Adds a leaf.
    pub fn push(&mut self, leaf: Digest) {
        let _ = self.push_into(leaf, &mut |_, _| Ok(()));
    }

    /// Adds a leaf; each tile that is whole by it is given to `keep`.
    ///
    /// # Errors
    ///
    /// That of `keep`; the tree is not to be used any more.
    pub fn push_into(&mut self, leaf: Digest, keep: &mut Keep<'_>) -> io::Result<()> {
        let mut hash = leaf;
        self.size += 1;
        for level in 0.. {
            if self.rows.len() == level {
                self.rows.push(Vec::with_capacity(TILE_WIDTH));
            }
            let row = &mut self.rows[level];
            row.push(hash);
            if row.len() < TILE_WIDTH {
                break;
            }
            keep((level, (self.size - 1) >> height(level + 1)), row)?;
            hash = perfect(row);
            row.clear();
        }
        Ok(())
    }

    /// The leaves that fill no tile yet.
    pub fn rest(&self) -> &[Digest] {
        self.rows.first().map_or(&[], Vec::as_slice)
    }

    /// The root (RFC 6962 §2.1).
    pub fn root(&self) -> Digest {
        let mut roots = Vec::new();
        for row in self.rows.iter().rev() {
            let mut rest = &row[..];
            while !rest.is_empty() {
                let (perfect_part, others) = rest.split_at(1 << rest.len().ilog2());
                roots.push(perfect(perfect_part));
                rest = others;
            }
        }
        let root = roots.into_iter().rev().reduce(|right, left| node(&left, &right));
        root.unwrap_or_else(|| Sha256::digest([]).into())
    }

    /// The tree of the first `size` leaves, by tiles that have them.
    ///
    /// # Errors
    ///
    /// A tile is missing or damaged.
    pub fn of_tiles(tiles: &Tiles, size: u64) -> io::Result<Self> {
        let mut rows = Vec::new();
        for level in 0.. {
            let count = size >> height(level);
            let width = count % TILE_WIDTH as u64;
            let row = match level {
                _ if count == 0 => break,
                _ if width == 0 => Vec::new(),
                0 => tiles.first((0, count >> TILE_HEIGHT), width as usize)?,
                _ => {
                    let below = |n| tiles.whole((level - 1, n)).map(|tile| perfect(&tile));
                    (count - width..count).map(below).collect::<io::Result<_>>()?
                }
            };
            rows.push(row);
        }
        Ok(Self { size, rows, absent: 0 })
    }

    /// The tree of the lines 1 to `size` of the log in `dir`: by tiles, as far as they go, and by
    /// the lines behind them.
    ///
    /// # Errors
    ///
    /// The directory or a tile cannot be read; too many lines are nowhere.
    pub fn of_log(dir: &Path, size: u64) -> io::Result<Self> {
        let tiles = Tiles::of(dir);
        let mut tree = Self::of_tiles(&tiles, tiles.leaves(size))?;
        tree.extend(dir, size, &|| false, &mut |_, _| Ok(()))?;
        Ok(tree)
    }

    /// Adds the leaves of the lines that follow in the files of `dir`, up to line `size`. What
    /// cannot be read of them is for `verify` to tell, and counts as nowhere.
    ///
    /// # Errors
    ///
    /// The directory cannot be read, a tile cannot be kept, `is_over` became true, or too many
    /// lines are nowhere.
    pub fn extend(
        &mut self,
        dir: &Path,
        size: u64,
        is_over: &dyn Fn() -> bool,
        keep: &mut Keep<'_>,
    ) -> io::Result<()> {
        for _ in 0..LISTINGS_MAX {
            if self.extend_once(dir, size, is_over, keep)? {
                return self.leave_out(size, keep);
            }
        }
        Err(io::Error::other(format!("the files in {} do not keep their names", dir.display())))
    }

    /// As far as the files keep their names; false: one has another name by now.
    fn extend_once(
        &mut self,
        dir: &Path,
        size: u64,
        is_over: &dyn Fn() -> bool,
        keep: &mut Keep<'_>,
    ) -> io::Result<bool> {
        let segments = segment::list(dir)?;
        for (index, segment) in segments.iter().enumerate() {
            let next = segments.get(index + 1).map(|next| next.first_seq);
            if next.is_some_and(|next| next <= self.size + 1) || segment.first_seq > size {
                continue;
            }
            let mut lines = match segment.lines() {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                Err(_) => continue,
                Ok(lines) => lines,
            };
            self.leave_out(segment.first_seq - 1, keep)?;
            for seq in segment.first_seq..=size {
                let Ok(FoundLine::Line(line)) = lines.next() else { break };
                let is_first = seq == segment.first_seq;
                if is_first && AnyLine::parse(line).is_ok_and(|line| line.seq != seq) {
                    return Ok(false);
                }
                if seq == self.size + 1 {
                    match split(line).and_then(|(_, hash)| digest(hash)) {
                        Some(hash) => self.push_into(leaf(&hash), keep)?,
                        None => self.leave_out(seq, keep)?,
                    }
                }
                if seq % LINES_UNASKED == 0 && is_over() {
                    return Err(super::evidence::over());
                }
            }
        }
        Ok(true)
    }

    /// Lines up to `last` are nowhere.
    fn leave_out(&mut self, last: u64, keep: &mut Keep<'_>) -> io::Result<()> {
        if last.saturating_sub(self.size) > TREE_LINES_ABSENT_MAX {
            let problem = format!("lines {} to {last} are missing", self.size + 1);
            return Err(io::Error::new(ErrorKind::InvalidData, problem));
        }
        while self.size < last {
            self.absent += 1;
            self.push_into(absent_leaf(), keep)?;
        }
        Ok(())
    }
}

/// Keeps a tile that is whole.
pub type Keep<'a> = dyn FnMut(Place, &[Digest]) -> io::Result<()> + 'a;

/// Of the tree below one hash of a level.
const fn height(level: usize) -> u32 {
    TILE_HEIGHT * level as u32
}

/// The tiles of a log on the disk.
#[derive(Clone, Debug)]
pub struct Tiles {
    dir: PathBuf,
}

impl Tiles {
    /// Of the log in `dir`.
    pub fn of(dir: &Path) -> Self {
        Self { dir: dir.join(TILES_NAME) }
    }

    /// How many leaves are kept without a hole, counted to `most`.
    pub fn leaves(&self, most: u64) -> u64 {
        let is_whole = |n: &u64| {
            let tile = fs::metadata(self.path((0, *n)));
            tile.is_ok_and(|tile| tile.len() == (TILE_WIDTH * HASH_BYTES) as u64)
        };
        let tiles = (0..most >> TILE_HEIGHT).take_while(is_whole).count() as u64;
        let rest = most - (tiles << TILE_HEIGHT);
        let width = rest.min(TILE_WIDTH as u64) as usize;
        let there = (1..=width).rev().find(|width| self.first((0, tiles), *width).is_ok());
        (tiles << TILE_HEIGHT) + there.unwrap_or_default() as u64
    }

    /// The leaves from the first on, as many as are kept without a hole, `most` of them at most.
    pub fn each_leaf(&self, most: u64) -> impl Iterator<Item = Digest> {
        let tiles = (0..).map_while(move |n| {
            let rest = most.checked_sub(n << TILE_HEIGHT).filter(|rest| *rest > 0)?;
            let width = rest.min(TILE_WIDTH as u64) as usize;
            (1..=width).rev().find_map(|width| self.first((0, n), width).ok())
        });
        tiles.flatten()
    }

    /// The first `width` hashes of a tile: of the whole one, or of one that has so many.
    ///
    /// # Errors
    ///
    /// There is none, or it has another length.
    pub fn first(&self, place: Place, width: usize) -> io::Result<Vec<Digest>> {
        let whole = self.path(place);
        match read(&whole, TILE_WIDTH) {
            Err(error) if error.kind() == ErrorKind::NotFound && width < TILE_WIDTH => {
                let parts = fs::read_dir(whole.with_added_extension("p"))?.flatten();
                let named = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
                let enough = parts.filter_map(named).filter(|part| *part >= width);
                let part = enough.min().ok_or(ErrorKind::NotFound)?;
                read(&self.path_of_part(place, part), part)
            }
            read => read,
        }
        .map(|mut hashes| {
            hashes.truncate(width);
            hashes
        })
    }

    /// The hashes of a whole tile; made of those below it where it is missing.
    ///
    /// # Errors
    ///
    /// A tile is missing or damaged.
    pub fn whole(&self, (level, n): Place) -> io::Result<Vec<Digest>> {
        match read(&self.path((level, n)), TILE_WIDTH) {
            Err(error) if error.kind() == ErrorKind::NotFound && level > 0 => {
                let below = (n << TILE_HEIGHT..).take(TILE_WIDTH);
                below.map(|n| self.whole((level - 1, n)).map(|tile| perfect(&tile))).collect()
            }
            read => read,
        }
    }

    /// Keeps a whole tile, on the disk itself. Parts of it are removed.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn keep(&self, place: Place, hashes: &[Digest]) -> io::Result<()> {
        let path = self.path(place);
        self.write(&path, hashes)?;
        removed(fs::remove_dir_all(path.with_added_extension("p")))
    }

    /// Keeps the leaves of `tree` that fill no tile yet, on the disk itself, in the place of any part of
    /// that tile that has fewer.
    ///
    /// # Errors
    ///
    /// They cannot be written.
    pub fn keep_rest(&self, tree: &Tree) -> io::Result<()> {
        let rest = tree.rest();
        if rest.is_empty() {
            return Ok(());
        }
        self.keep_part((0, tree.size >> TILE_HEIGHT), rest)
    }

    /// Removes what is kept of lines behind the line `size`, the last of the log: they are of another
    /// one that was in its place, or have been lost and will be others.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    pub fn cut(&self, size: u64) -> io::Result<()> {
        if size == 0 {
            return removed(fs::remove_dir_all(&self.dir));
        }
        let place = (0, size >> TILE_HEIGHT);
        let (whole, width) = (self.path(place), (size % TILE_WIDTH as u64) as usize);
        let is_part_too_wide = self.first(place, width + 1).is_ok();
        if is_part_too_wide && let Ok(leaves) = self.first(place, width.max(1)) {
            match width {
                0 => removed(fs::remove_dir_all(whole.with_added_extension("p")))?,
                _ => self.keep_part(place, &leaves)?,
            }
            removed(fs::remove_file(&whole))?;
        }
        for level in 0..u64::BITS as usize / TILE_HEIGHT as usize - 1 {
            let behind = (size >> height(level + 1)) + u64::from(level == 0);
            for n in behind.. {
                let tile = self.path((level, n));
                let parts = tile.with_added_extension("p");
                if !tile.exists() && !parts.exists() {
                    break;
                }
                removed(fs::remove_file(tile))?;
                removed(fs::remove_dir_all(parts))?;
            }
        }
        Ok(())
    }

    /// In the place of any other part of that tile.
    fn keep_part(&self, place: Place, leaves: &[Digest]) -> io::Result<()> {
        let part = self.path_of_part(place, leaves.len());
        self.write(&part, leaves)?;
        for other in fs::read_dir(self.path(place).with_added_extension("p"))? {
            let other = other?.path();
            if other != part {
                fs::remove_file(other)?;
            }
        }
        Ok(())
    }

    fn write(&self, path: &Path, hashes: &[Digest]) -> io::Result<()> {
        if let Some(dir) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        write_whole(path, |mut file| file.write_all(hashes.as_flattened()))
    }

    /// As C2SP tlog-tiles has it: `LEVEL/x001/x234/067`.
    fn path(&self, (level, n): Place) -> PathBuf {
        let mut name = format!("{:03}", n % 1000);
        let mut above = n / 1000;
        while above > 0 {
            name = format!("x{:03}/{name}", above % 1000);
            above /= 1000;
        }
        self.dir.join(level.to_string()).join(name)
    }

    fn path_of_part(&self, place: Place, width: usize) -> PathBuf {
        self.path(place).with_added_extension("p").join(width.to_string())
    }
}

/// No error where there was nothing to remove.
fn removed(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// The hashes of a file that has `width` of them.
fn read(path: &Path, width: usize) -> io::Result<Vec<Digest>> {
    let bytes = fs::read(path)?;
    let (hashes, rest) = bytes.as_chunks::<HASH_BYTES>();
    if hashes.len() == width && rest.is_empty() {
        return Ok(hashes.to_vec());
    }
    let problem = format!("{}: it has {} bytes", path.display(), bytes.len());
    Err(io::Error::new(ErrorKind::InvalidData, problem))
}

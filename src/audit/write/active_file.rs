//! The file of records that is being written: append-only lines, always whole. What a crash or a
//! full disk left behind half written is taken away again before anything else is written.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::writer_handle::Written;
use crate::audit::checkpoint::{Checkpoint, NoteSigner};
use crate::audit::evidence::BlobName;
use crate::audit::record::Node;
use crate::audit::record::chain::{Content, Head, head_of};
use crate::audit::record::meta_record::{Notice, RecordedCounts};
use crate::audit::record::verifier_key::VerifierKey;
use crate::audit::segment::private;
use crate::audit::tree::{self, Digest, Tree};
use crate::types::LogId;
use crate::types::timestamp::Timestamp;

/// Bytes at the end of the record file that are searched for the last whole record at start.
pub(crate) const RECORD_TAIL_BYTES_MAX: u64 = 4 << 20;

/// The file, open at its end.
#[derive(Debug)]
pub struct ActiveFile {
    file: File,
    path: PathBuf,
    /// Bytes of whole lines.
    whole: u64,
    /// Whether there may be part of a line beyond `whole`.
    torn: bool,
}

/// The first line of a file: it gives the file its name and its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// Its number in the chain, from 1.
    pub seq: u64,
    pub time: Timestamp,
}

/// What was found at the end of the file.
#[derive(Debug)]
pub struct Tail {
    /// The last line; none in an empty file.
    pub head: Option<Head>,
    /// What followed it and was no whole line. It has been set aside.
    pub torn: Vec<u8>,
}

impl ActiveFile {
    /// Opens or makes the file; what follows the last whole record is moved to `torn_path`.
    pub fn open(path: &Path, torn_path: &Path) -> io::Result<(Self, Tail)> {
        let file = private().read(true).append(true).open(path)?;
        let length = file.metadata()?.len();
        let mut file = Self { file, path: path.to_owned(), whole: length, torn: false };
        let tail = file.read_tail(length)?;
        if !tail.torn.is_empty() {
            let mut aside = private().append(true).open(torn_path)?;
            aside.write_all(&tail.torn)?;
            aside.write_all(b"\n")?;
            aside.sync_all()?;
            file.cut()?;
        }
        if length == 0 || !tail.torn.is_empty() {
            sync_parent(path)?;
        }
        Ok((file, tail))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of whole lines.
    pub const fn len(&self) -> u64 {
        self.whole
    }

    /// An error where it has not the length of the last write, or no name: another program has
    /// changed it.
    pub fn check_as_left(&mut self) -> io::Result<()> {
        self.cut()?;
        let metadata = self.file.metadata()?;
        if metadata.len() == self.whole && metadata.nlink() > 0 {
            return Ok(());
        }
        Err(self.is_of_another("truncated, extended or removed"))
    }

    /// An error where its name leads to another file, or to none.
    pub fn check_in_place(&self) -> io::Result<()> {
        let own = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == (own.dev(), own.ino()) => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(_) | Err(_) => Err(self.is_of_another("renamed or removed")),
        }
    }

    fn is_of_another(&self, what: &str) -> io::Error {
        io::Error::other(format!("another program has {what} {}", self.path.display()))
    }

    /// Appends whole lines with one write, and brings them to the disk itself if they are to be
    /// `durable`. On error the file is as it was before.
    pub fn append(&mut self, lines: &[u8], durable: bool) -> io::Result<()> {
        self.append_with(lines, |file, lines| {
            file.write_all(lines)?;
            if durable { file.sync_data() } else { Ok(()) }
        })
    }

    /// To the disk itself.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Gives the file the name `closed`, for good, and goes on with an empty one. On error it goes on
    /// with the file it has; nothing is ever overwritten.
    pub fn close_as(&mut self, closed: &Path) -> io::Result<()> {
        self.cut()?;
        for taken in [closed.to_owned(), closed.with_added_extension("gz")] {
            if taken.try_exists()? {
                let problem = format!("{} is there already; move it away", taken.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
            }
        }
        self.file.sync_all()?;
        fs::rename(&self.path, closed)?;
        match private().create_new(true).read(true).append(true).open(&self.path) {
            Ok(file) => (self.file, self.whole) = (file, 0),
            Err(error) => {
                fs::rename(closed, &self.path)?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Syncs the directory: the names of the file and of those beside it.
    pub fn sync_names(&self) -> io::Result<()> {
        sync_parent(&self.path)
    }

    pub(crate) fn append_with(
        &mut self,
        lines: &[u8],
        write: impl FnOnce(&mut File, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.cut()?;
        self.torn = true;
        if let Err(error) = write(&mut self.file, lines) {
            // The first error is returned; a failed cut is retried before the next write.
            let _ = self.cut();
            return Err(error);
        }
        self.torn = false;
        self.whole += lines.len() as u64;
        Ok(())
    }

    fn cut(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.whole)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Finds the last whole record, and all that follows it.
    fn read_tail(&mut self, length: u64) -> io::Result<Tail> {
        let start = length.saturating_sub(RECORD_TAIL_BYTES_MAX);
        let mut tail = Vec::new();
        self.file.seek(SeekFrom::Start(start))?;
        (&self.file).take(length - start).read_to_end(&mut tail)?;
        let mut end = 0;
        let mut head = None;
        for (line_start, line_end) in lines_backwards(&tail) {
            if let Some(found) = head_of(&tail[line_start..line_end]) {
                (head, end) = (Some(found), line_end + 1);
                break;
            }
        }
        if head.is_none() && start > 0 {
            let problem = format!(
                "there is no record to go on from at the end of {}; move it away to begin another",
                self.path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let torn = tail.split_off(end);
        self.whole = start + end as u64;
        self.torn = !torn.is_empty();
        Ok(Tail { head, torn })
    }
}

/// Lines that have their end, from the last to the first, without it.
fn lines_backwards(bytes: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut ends = memchr::memrchr_iter(b'\n', bytes).peekable();
    std::iter::from_fn(move || {
        let end = ends.next()?;
        Some((ends.peek().map_or(0, |before| before + 1), end))
    })
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

// Room on the disk for the last lines of a log: a file that is allocated while there is room, and
// removed when a full disk keeps the writer from saying at its end what was lost.

/// In the directory of the log, while it is written.
pub const NAME: &str = "reserve";

/// Its bytes: the last notices, and `head.json`, each in blocks of its own.
const RESERVE_BYTES: usize = 16 << 10;

/// The room; it is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// Takes the room in the directory `dir`; where the disk is full already, there is none.
    pub fn take(dir: &Path) -> Self {
        let path = dir.join(NAME);
        if let Err(error) = fill(&path) {
            tracing::debug!("{} cannot be made: {error}", path.display());
            let _ = fs::remove_file(&path);
        }
        Self { path }
    }

    /// Gives the room back. Whether there was some.
    pub fn give_back(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Written, not only reserved: that is room on every file system.
fn fill(path: &Path) -> io::Result<()> {
    private().write(true).truncate(true).open(path)?.write_all(&[0; RESERVE_BYTES])
}

/// Makes checkpoints.
#[derive(Debug)]
pub(super) struct Sealer {
    pub tree: Tree,
    pub signer: Arc<NoteSigner>,
}

impl Sealer {
    /// The note of a log with that head.
    fn seal(&self, key: &VerifierKey, head: &Head, time: Timestamp) -> Option<String> {
        let (origin, root) = (key.name.clone(), self.tree.root());
        let checkpoint = Checkpoint { origin, head: head.clone(), root, time };
        let sealed = self.signer.sign(checkpoint);
        sealed.map(|note| note.to_string()).inspect_err(|error| tracing::error!("{error}")).ok()
    }
}

// Lines that are appended with one write, as they continue the chain.

#[derive(Debug)]
pub(super) struct Batch {
    /// The name of this proxy.
    node: Option<Node>,
    log: LogId,
    /// What the log is called by in checkpoints, and the key that signs them.
    key: Option<VerifierKey>,
    /// The tree before the next of these lines, where one of them is a checkpoint.
    sealer: Option<Sealer>,
    /// The leaf of each line.
    pub leaves: Vec<Digest>,
    /// Where the chain stands after these lines.
    pub head: Head,
    pub lines: Vec<u8>,
    pub first: Option<First>,
    /// When the last of them was written.
    pub last: Option<Timestamp>,
    /// The first record's.
    pub id: Option<String>,
    /// Records among the lines.
    pub records: u64,
    /// Lines of allowed requests.
    pub allowed: u64,
    /// Records since the last `totals`, these lines included.
    pub recorded: RecordedCounts,
    /// The last checkpoint among them.
    pub checkpoint: Option<Arc<str>>,
    /// The evidence that they name.
    pub names: Vec<BlobName>,
    /// Of each line, in their order.
    pub places: Vec<Written>,
}

impl Batch {
    /// `recorded`: the records since the last `totals` before them.
    pub fn after(
        head: &Head,
        recorded: RecordedCounts,
        node: Option<Node>,
        (log, key): (LogId, Option<&VerifierKey>),
        sealer: Option<Sealer>,
    ) -> Self {
        Self {
            node,
            log,
            key: key.cloned(),
            sealer,
            leaves: Vec::new(),
            head: head.clone(),
            lines: Vec::new(),
            first: None,
            last: None,
            id: None,
            records: 0,
            allowed: 0,
            recorded,
            checkpoint: None,
            names: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Adds a line.
    pub fn push(&mut self, mut content: Content) {
        content.set_node(self.node.clone());
        content.set_log(self.log, self.key.as_ref());
        match &mut content {
            Content::Record(record) => {
                self.records += 1;
                self.recorded.add(record.event);
                self.id.get_or_insert_with(|| record.id.clone());
            }
            Content::Notice(Notice::Totals(totals)) => {
                totals.recorded = Some(std::mem::take(&mut self.recorded));
            }
            Content::Notice(Notice::Allowed(_)) => self.allowed += 1,
            Content::Notice(Notice::Pulse(pulse)) => pulse.recorded = Some(self.recorded),
            Content::Notice(Notice::Checkpointed(checkpointed)) => {
                let sealed = self.sealer.as_ref().zip(self.key.as_ref());
                let sealed =
                    sealed.and_then(|(it, key)| it.seal(key, &self.head, checkpointed.time));
                checkpointed.note = sealed.unwrap_or_default();
                self.checkpoint = Some(checkpointed.note.as_str().into());
            }
            Content::Notice(_) => {}
        }
        self.names.extend(content.blobs());
        let time = content.time();
        let leaf = tree::leaf(&self.head.push(content, &mut self.lines));
        if let Some(sealer) = &mut self.sealer {
            sealer.tree.push(leaf);
        }
        self.leaves.push(leaf);
        self.first.get_or_insert(First { seq: self.head.seq, time });
        self.last = Some(time);
        self.places.push(Written { seq: self.head.seq });
    }
}

//! What a compressed segment contains, in a file beside it: readers of pages pass over segments, and parts of them,
//! that have nothing of what they look for. Whatever is wrong with a summary, it is left unread, and more of the
//! segment is read instead; nothing that checks a log believes one.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::evidence::over;
use super::record::raw_record::{RawRecord, split_port};
use super::{AnyLine, Content, print_time, segment};
use crate::types::timestamp::Timestamp;

/// Of what is written, and of how lines are read for it: a summary of another version is left unread.
const VERSION: u32 = 1;

/// How hard a segment is compressed. From level 2 to 6 files become a thirtieth smaller for half as much
/// CPU time again, which denied requests pay for; at level 1 they are half as large again.
const LEVEL: u32 = 2;

/// Bytes of a log that are compressed alone: a smaller part makes the file larger, and a larger one takes longer to
/// read where one line is looked for. No line is longer.
pub const MEMBER_BYTES: usize = 1 << 20;

/// Values of one kind that a summary has. With more of them it says nothing of that kind: a reader of pages reads the
/// summaries of all segments that it passes over.
const VALUES_MAX: usize = 1 << 16;

/// Words of events, or reasons, in a summary; we have fewer.
const WORDS_MAX: usize = 256;

/// Bytes of a time, an identifier or a word in a summary: those that we write are shorter.
const TEXT_BYTES_MAX: usize = 32;

/// Bytes of a summary before it is compressed: more than the bounds above allow.
const SUMMARY_BYTES_MAX: u64 = 8 << 20;

/// Bytes at the end of a compressed file: of its last member, the check sum and the length.
const TRAILER_BYTES: usize = 8;

/// What is looked for, as far as a summary can tell that it is not there. Of each kind any of what is listed will do;
/// of a kind without any, everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// Numbers in the chain.
    pub seqs: Vec<u64>,
    /// The beginnings of identifiers.
    pub ids: Vec<String>,
    pub events: Vec<String>,
    pub reasons: Vec<String>,
    /// These and the following by their [`value_hash`].
    pub hosts: Vec<u32>,
    pub agents: Vec<u32>,
    pub clients: Vec<u32>,
}

impl Needs {
    /// Nothing: any line may be it.
    pub const ANY: Self = Self {
        since: None,
        until: None,
        seqs: Vec::new(),
        ids: Vec::new(),
        events: Vec::new(),
        reasons: Vec::new(),
        hosts: Vec::new(),
        agents: Vec::new(),
        clients: Vec::new(),
    };
}

/// What stands for a host, an agent or a client, in any case. Values that share it cost time, and nothing else.
pub fn value_hash(value: &str) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(value.to_ascii_lowercase().as_bytes());
    crc.sum()
}

/// The name of the summary of a closed segment; none for a file that is not named as we name them.
pub fn path_of(segment: &Path) -> Option<PathBuf> {
    let first_seq = segment::named_seq(segment)?;
    let name = segment::closed_name(first_seq);
    Some(segment.with_file_name(name).with_extension("summary"))
}

/// The summary of one segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentSummary {
    version: u32,
    /// Of the compressed file: its size and its end show that the summary is its own.
    bytes: u64,
    end: [u8; TRAILER_BYTES],
    /// The number of its last line.
    pub last_seq: u64,
    members: Vec<SummaryMember>,
    /// How many records and notices, by their events.
    events: WordCounts,
    /// How many records, by their reasons.
    reasons: WordCounts,
    /// Hosts of origins, and the domains above them.
    hosts: ValueHashes,
    agents: ValueHashes,
    /// Addresses and names.
    clients: ValueHashes,
}

/// A part of the compressed file that can be read without what is before it: whole lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SummaryMember {
    offset: u64,
    first_seq: u64,
    times: TextSpan,
    ids: TextSpan,
}

/// A part of a segment that is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentPart {
    /// The number of its first line.
    pub first_seq: u64,
    /// Where it stands in the file.
    pub range: Range<u64>,
}

impl SegmentSummary {
    /// Of a compressed segment at `path`, open as `file`; none where there is none that is whole, of this version and
    /// of that very file. Also returns how many bytes were read.
    pub fn read(path: &Path, file: &File) -> (Option<Self>, u64) {
        let Some(stored) = path_of(path).and_then(|path| std::fs::read(path).ok()) else {
            return (None, 0);
        };
        (Self::parse(&stored).filter(|it| it.is_of(file).unwrap_or(false)), stored.len() as u64)
    }

    fn parse(stored: &[u8]) -> Option<Self> {
        let mut text = Vec::new();
        // Reading to the end checks the sum.
        GzDecoder::new(stored).take(SUMMARY_BYTES_MAX).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn is_of(&self, file: &File) -> io::Result<bool> {
        let bytes = file.metadata()?.len();
        let mut end = [0; TRAILER_BYTES];
        file.read_exact_at(&mut end, bytes.saturating_sub(TRAILER_BYTES as u64))?;
        let begins = self.members.iter().map(|member| (member.offset, member.first_seq));
        let is_ordered = begins.clone().zip(begins.skip(1)).all(|(a, b)| a.0 < b.0 && a.1 < b.1);
        let is_within = self.members.last().is_some_and(|last| last.offset < bytes)
            && self.members.first().is_some_and(|first| first.offset == 0);
        Ok((self.version, self.bytes, self.end) == (VERSION, bytes, end) && is_ordered && is_within)
    }

    /// The parts that may have what is looked for, the first one first.
    pub fn parts(&self, needs: &Needs) -> Vec<SegmentPart> {
        if !self.may_have(needs) {
            return Vec::new();
        }
        let ends = self.members.iter().skip(1).map(|next| (next.offset, next.first_seq));
        let ends = ends.chain([(self.bytes, self.last_seq.saturating_add(1))]);
        let times = (needs.since.map(print_time), needs.until.map(print_time));
        let members = self.members.iter().zip(ends);
        let members = members.filter(|(member, (_, after))| member.may_have(needs, &times, *after));
        let parts = members.map(|(member, (end, _))| SegmentPart {
            first_seq: member.first_seq,
            range: member.offset..end,
        });
        parts.collect()
    }

    fn may_have(&self, needs: &Needs) -> bool {
        self.events.may_have(&needs.events)
            && self.reasons.may_have(&needs.reasons)
            && self.hosts.may_have(&needs.hosts)
            && self.agents.may_have(&needs.agents)
            && self.clients.may_have(&needs.clients)
    }
}

impl SummaryMember {
    /// `since` and `until` as they are written; `after`: the number of the first line behind it.
    fn may_have(
        &self,
        needs: &Needs,
        (since, until): &(Option<String>, Option<String>),
        after: u64,
    ) -> bool {
        let is_any_time = since.is_none() && until.is_none();
        let is_in_time = is_any_time
            || self.times.may_have(|least, most| {
                since.as_deref().is_none_or(|since| most >= since)
                    && until.as_deref().is_none_or(|until| least < until)
            });
        let has_seq = needs.seqs.is_empty()
            || needs.seqs.iter().any(|seq| (self.first_seq..after).contains(seq));
        let has_id = needs.ids.is_empty()
            || self.ids.may_have(|least, most| {
                let between =
                    |start: &str| start <= most && (start >= least || least.starts_with(start));
                needs.ids.iter().any(|start| between(start))
            });
        is_in_time && has_seq && has_id
    }
}

/// From which text to which.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum TextSpan {
    #[default]
    Empty,
    Between(String, String),
    /// One of the texts was none that we write.
    Unknown,
}

impl TextSpan {
    fn add(&mut self, text: &str) {
        match self {
            Self::Unknown => {}
            _ if text.len() > TEXT_BYTES_MAX => *self = Self::Unknown,
            Self::Empty => *self = Self::Between(text.into(), text.into()),
            Self::Between(least, _) if text < least.as_str() => *least = text.into(),
            Self::Between(_, most) if text > most.as_str() => *most = text.into(),
            Self::Between(..) => {}
        }
    }

    fn may_have(&self, fits: impl Fn(&str, &str) -> bool) -> bool {
        match self {
            Self::Empty => false,
            Self::Between(least, most) => fits(least, most),
            Self::Unknown => true,
        }
    }
}

/// How often each word stands there; none where there were too many, or one that is none of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WordCounts(Option<BTreeMap<String, u64>>);

impl Default for WordCounts {
    fn default() -> Self {
        Self(Some(BTreeMap::new()))
    }
}

impl WordCounts {
    fn add(&mut self, word: &str) {
        let Some(words) = &mut self.0 else { return };
        if let Some(count) = words.get_mut(word) {
            *count += 1;
        } else if words.len() < WORDS_MAX && word.len() <= TEXT_BYTES_MAX {
            words.insert(word.to_owned(), 1);
        } else {
            self.0 = None;
        }
    }

    fn may_have(&self, wanted: &[String]) -> bool {
        let Some(words) = &self.0 else { return true };
        wanted.is_empty() || wanted.iter().any(|word| words.contains_key(word))
    }
}

/// Hashes of values, each once and in their order; none where there were too many. Written as the distance of each
/// from the one before, which takes less room.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ValueHashes(Option<Vec<u32>>);

impl ValueHashes {
    fn of(values: HashSet<u32>) -> Self {
        let mut sorted: Vec<u32> = values.into_iter().collect();
        sorted.sort_unstable();
        Self((sorted.len() <= VALUES_MAX).then_some(sorted))
    }

    fn may_have(&self, wanted: &[u32]) -> bool {
        let Some(found) = &self.0 else { return true };
        wanted.is_empty() || wanted.iter().any(|hash| found.binary_search(hash).is_ok())
    }
}

impl Serialize for ValueHashes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut before = 0;
        let distances = self.0.as_ref().map(|sorted| {
            let distances = sorted.iter().map(|hash| hash - std::mem::replace(&mut before, *hash));
            distances.collect::<Vec<_>>()
        });
        distances.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ValueHashes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut hash = 0_u32;
        let distances = Option::<Vec<u32>>::deserialize(deserializer)?;
        Ok(Self(distances.map(|distances| {
            let hashes = distances.into_iter().map(|distance| {
                hash = hash.wrapping_add(distance);
                hash
            });
            hashes.collect()
        })))
    }
}

/// A summary as it is made, while its segment is compressed.
#[derive(Debug, Default)]
pub struct SummaryBuilder {
    members: Vec<SummaryMember>,
    last_seq: u64,
    events: WordCounts,
    reasons: WordCounts,
    hosts: HashSet<u32>,
    agents: HashSet<u32>,
    clients: HashSet<u32>,
    /// The last text had no line end, or a line was out of order: no part of the file can be passed over.
    is_torn: bool,
    is_disordered: bool,
}

impl SummaryBuilder {
    /// Takes the text of the member that begins at `offset`.
    pub fn member(&mut self, offset: u64, text: &[u8]) {
        self.is_disordered |= std::mem::replace(&mut self.is_torn, !text.ends_with(b"\n"));
        let mut member: Option<SummaryMember> = None;
        for line in text.split(|byte| *byte == b'\n') {
            // A damaged one is no line to readers, either.
            let Ok(any) = AnyLine::parse(line) else { continue };
            let seq = any.seq;
            self.is_disordered |= seq <= self.last_seq;
            self.last_seq = seq;
            let member = member.get_or_insert(SummaryMember {
                // Before the first line there may be damage, which is read with it.
                offset: if self.members.is_empty() { 0 } else { offset },
                first_seq: seq,
                times: TextSpan::Empty,
                ids: TextSpan::Empty,
            });
            self.line(member, line, any.time);
        }
        // One without a line is read with the one before it.
        self.members.extend(member);
    }

    /// By the same readers of its members as a filter goes by.
    fn line(&mut self, member: &mut SummaryMember, line: &[u8], time: Option<Timestamp>) {
        time.into_iter().for_each(|time| member.times.add(&print_time(time)));
        let raw = RawRecord::of(line).or_else(|| RawRecord::of_allowed(line));
        if let Some(raw) = raw {
            raw.time().into_iter().for_each(|time| member.times.add(&time));
            raw.id().into_iter().for_each(|id| member.ids.add(&id));
            raw.event().into_iter().for_each(|event| self.events.add(&event));
            raw.reason().into_iter().for_each(|reason| self.reasons.add(&reason));
            raw.origin().into_iter().for_each(|origin| self.origin(&origin));
            raw.agent().into_iter().for_each(|agent| add(&mut self.agents, &agent));
            for client in [raw.client_name(), raw.client_address()].into_iter().flatten() {
                add(&mut self.clients, &client);
                if let Ok(address) = client.parse::<std::net::IpAddr>() {
                    add(&mut self.clients, &address.to_canonical().to_string());
                }
            }
        } else if let Ok(Content::Notice(notice)) = Content::parse(line) {
            self.events.add(notice.word());
            notice.origin().into_iter().for_each(|origin| self.origin(origin));
            notice.agents().for_each(|agent| add(&mut self.agents, agent));
        }
    }

    fn origin(&mut self, origin: &str) {
        let Some((_, authority)) = origin.split_once("://") else { return };
        let (mut name, _) = split_port(authority);
        add(&mut self.hosts, name);
        while let Some((_, parent)) = name.split_once('.') {
            name = parent;
            add(&mut self.hosts, name);
        }
    }

    /// Writes the summary of the segment that is compressed to `packed`, of `bytes` bytes, `last` being its last member;
    /// or removes one that is there, where nothing can be said of the segment.
    pub fn write(self, packed: &Path, bytes: u64, last: &[u8]) -> io::Result<()> {
        let Some(path) = path_of(packed) else { return Ok(()) };
        let is_ordered = !self.is_disordered && !self.members.is_empty();
        let Some(end) = last.last_chunk().copied().filter(|_| is_ordered) else {
            return match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        };
        let summary = SegmentSummary {
            version: VERSION,
            bytes,
            end,
            last_seq: self.last_seq,
            members: self.members,
            events: self.events,
            reasons: self.reasons,
            hosts: ValueHashes::of(self.hosts),
            agents: ValueHashes::of(self.agents),
            clients: ValueHashes::of(self.clients),
        };
        let text = serde_json::to_vec(&summary)?;
        segment::write_whole(&path, |file| {
            let mut encoder = GzEncoder::new(file, Compression::default());
            encoder.write_all(&text)?;
            encoder.finish().map(drop)
        })
    }
}

/// Compresses the segment at `plain` as one gzip member for each `member_bytes` of whole lines, so that any of them can be
/// read alone, and writes the summary that tells where they are. That is there before the compressed file has its name.
pub fn compress(
    plain: &Path,
    packed: &Path,
    member_bytes: usize,
    is_over: &dyn Fn() -> bool,
) -> io::Result<()> {
    let mut lines = File::open(plain)?;
    segment::write_whole(packed, |mut file| {
        let (mut summary, mut offset, mut text) = (SummaryBuilder::default(), 0, Vec::new());
        let mut member = Vec::new();
        loop {
            if is_over() {
                return Err(over());
            }
            let room = (member_bytes - text.len()) as u64;
            let is_last = (&mut lines).take(room).read_to_end(&mut text)? as u64 != room;
            let end = match memchr::memrchr(b'\n', &text) {
                Some(end) if !is_last => end + 1,
                _ => text.len(),
            };
            summary.member(offset, &text[..end]);
            member.clear();
            let mut encoder = GzEncoder::new(&mut member, Compression::new(LEVEL));
            encoder.write_all(&text[..end])?;
            encoder.finish()?;
            file.write_all(&member)?;
            offset += member.len() as u64;
            text.drain(..end);
            if is_last {
                return summary.write(packed, offset, &member);
            }
        }
    })
}

fn add(values: &mut HashSet<u32>, value: &str) {
    if values.len() <= VALUES_MAX {
        values.insert(value_hash(value));
    }
}

#[cfg(test)]
mod tests;

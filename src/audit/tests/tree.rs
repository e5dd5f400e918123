//! The tree of a log, held against a naive one and against another implementation of C2SP tlog-tiles.

use std::fs;
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};
use signed_note::{Note, StandardVerifier, VerifierList};

use super::*;
use crate::audit::checkpoint::{Checkpoint, KEY_NAME, NoteSigner, SignedCheckpoint};
use crate::audit::read::Log;
use crate::audit::read::verify::{Findings, GivenHead, HeadState, SignedBy, verify, verify_signed};
use crate::audit::record::verifier_key::VerifierKey;
use crate::audit::tree::{Digest, TILES_NAME, Tiles, Tree, leaf};
use crate::types::sanitize::digest;

/// RFC 6962 §2.1, word for word, of the hashes of lines.
fn naive(hashes: &[Digest]) -> Digest {
    match hashes {
        [] => Sha256::digest([]).into(),
        [hash] => Sha256::digest([&[0][..], hash].concat()).into(),
        _ => {
            let k = hashes.len().next_power_of_two() / 2;
            let (left, right) = hashes.split_at(k);
            Sha256::digest([&[1][..], &naive(left), &naive(right)].concat()).into()
        }
    }
}

fn hashes(count: u64) -> Vec<Digest> {
    (0..count).map(|number| Sha256::digest(number.to_be_bytes()).into()).collect()
}

fn of(hashes: &[Digest]) -> Tree {
    let mut tree = Tree::default();
    hashes.iter().for_each(|hash| tree.push(leaf(hash)));
    tree
}

/// A log of so many lines, in files of ten or so, of which all but the last are closed and have tiles.
struct Written {
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
}

impl Written {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), clock: ManualClock::starting_at(NOON) }
    }

    fn audit(&self) -> PathBuf {
        self.dir.path().join("audit")
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join(KEY_NAME)
    }

    fn open(&self, edit: impl FnOnce(&mut Config)) -> Writer {
        open_at(&self.audit(), self.clock.clone(), |config| {
            (config.key, config.node) = (Some(self.key()), Some(Node::from("a node+1")));
            edit(config);
        })
        .unwrap()
    }

    /// Its lines as they are now.
    fn lines(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for segment in segment::list(&self.audit()).unwrap() {
            // Renamed or removed since it was listed: who waits for a line asks again.
            let Ok(mut lines) = segment.lines() else { continue };
            while let segment::FoundLine::Line(line) = lines.next().unwrap() {
                all.push(line.to_vec());
            }
        }
        all
    }

    /// Their hashes.
    fn hashes(&self) -> Vec<Digest> {
        self.lines().iter().map(|line| digest(checked_hash(line).unwrap()).unwrap()).collect()
    }

    fn verify(&self, heads: &[GivenHead], keys: &[VerifierKey]) -> Findings {
        let log = Log::Dir(self.audit());
        verify_signed(&log, heads, keys, true, &mut |_, _| {}).unwrap()
    }

    /// The checkpoints that are lines of it, with their numbers.
    fn checkpoints(&self) -> Vec<(u64, String)> {
        let lines = self.lines();
        let notes = lines.iter().filter_map(|line| match Content::parse(line).unwrap() {
            Content::Notice(Notice::Checkpointed(it)) => Some((it.seq, it.note)),
            _ => None,
        });
        notes.collect()
    }

    fn lines_text(&self) -> String {
        fs::read_to_string(self.audit().join(FILE_NAME)).unwrap()
    }
}

fn started() -> Notice {
    Notice::Started(Started {
        changes: None,
        digest: "ef".into(),
        event: StartedEvent::It,
        exemptions: Vec::new(),
        exemptions_omitted: 0,
        how: StartMode::Serve,
        key: None,
        log: None,
        node: None,
        prev: String::new(),
        profile_version: 3,
        program: None,
        seq: 0,
        settings: None,
        time: NOON,
        version: "0.1.0".into(),
    })
}

fn checkpoint() -> Notice {
    Notice::Checkpointed(Checkpointed {
        event: CheckpointEvent::It,
        node: None,
        note: String::new(),
        prev: String::new(),
        seq: 0,
        time: NOON,
    })
}

/// A started log of `lines` lines, the last but one of them a checkpoint, and its key.
fn logged(lines: u64) -> (Written, VerifierKey) {
    let log = Written::new();
    let writer = log.open(|_| {});
    writer.queue_notice(started());
    (2..=lines - 2).for_each(|_| _ = write(&writer));
    writer.queue_notice(checkpoint());
    assert_eq!(write(&writer), lines);
    writer.close().unwrap();
    let key = read_key(&log.audit()).unwrap().unwrap();
    (log, key)
}

fn published(note: &str) -> GivenHead {
    GivenHead::checkpoint(SignedCheckpoint::parse(note).unwrap())
}

#[test]
fn the_root_is_that_of_rfc_6962() {
    let all = hashes(70_000);
    let mut tree = Tree::default();
    for (size, hash) in (1..).zip(&all) {
        tree.push(leaf(hash));
        if size <= 600 || [65_535, 65_536, 65_537, 70_000].contains(&size) {
            assert_eq!(tree.root(), naive(&all[..size]), "{size}");
        }
    }
    assert_eq!(Tree::default().root(), naive(&[]));
}

#[test]
fn tiles_give_the_tree_back_with_and_without_the_upper_ones() {
    let dir = tempfile::tempdir().unwrap();
    let (tiles, all) = (Tiles::of(dir.path()), hashes(66_000));
    let mut tree = Tree::default();
    for (size, hash) in (1..).zip(&all) {
        tree.push_into(leaf(hash), &mut |place, hashes| tiles.keep(place, hashes)).unwrap();
        if [1, 255, 300, 66_000].contains(&size) {
            tiles.keep_rest(&tree).unwrap();
            assert_eq!(tiles.leaves(u64::MAX >> 16), size);
        }
    }
    let sizes = [1, 255, 256, 257, 511, 65_535, 65_536, 65_900, 66_000];
    for is_whole in [true, false] {
        for size in sizes {
            assert_eq!(Tree::of_tiles(&tiles, size).unwrap(), of(&all[..size as usize]), "{size}");
            assert_eq!(tiles.each_leaf(size).count() as u64, size);
        }
        // As C2SP tlog-tiles has it: the 257th tile of the leaves, and the second of those above.
        let dir = dir.path().join(TILES_NAME);
        assert!(dir.join("0/256").exists() && dir.join("0/257.p/208").exists());
        assert_eq!(dir.join("1/000").exists(), is_whole);
        assert!(!dir.join("0/001.p").exists(), "the whole tile has taken the place of its part");
        fs::remove_dir_all(dir.join("1")).ok();
    }
    // What is behind the end of a log is of another one, or will be.
    for size in [65_990, 65_900, 65_792, 65_536, 300] {
        tiles.cut(size).unwrap();
        assert_eq!(tiles.leaves(u64::MAX >> 16), size);
        assert_eq!(Tree::of_tiles(&tiles, size).unwrap(), of(&all[..size as usize]), "{size}");
    }
    // One that is damaged is as one that is not there.
    fs::write(dir.path().join(TILES_NAME).join("0/000"), "x").unwrap();
    assert_eq!(tiles.leaves(300), 0);
    assert!(Tree::of_tiles(&tiles, 300).is_err());
    tiles.cut(0).unwrap();
    assert!(!dir.path().join(TILES_NAME).exists());
}

#[test]
fn checkpoints_are_signed_notes_to_another_implementation() {
    let (log, key) = logged(9);
    let [(8, note)] = &log.checkpoints()[..] else { panic!("not one: {:?}", log.checkpoints()) };
    let verifier = StandardVerifier::new(&key.to_string()).unwrap();
    let theirs = Note::from_bytes(note.as_bytes()).unwrap();
    let (verified, others) = theirs.verify(&VerifierList::new(vec![Box::new(verifier)])).unwrap();
    assert_eq!((verified.len(), others.len()), (1, 0));
    let id = read_log_id(&log.audit()).unwrap().unwrap();
    let checkpoint = tlog_tiles::Checkpoint::from_bytes(theirs.text()).unwrap();
    assert_eq!(checkpoint.origin(), format!("courtesy/a%20node%2B1/{id}"));
    assert_eq!((checkpoint.size(), checkpoint.hash().0), (7, naive(&log.hashes()[..7])));
    let ours = SignedCheckpoint::parse(note).unwrap();
    assert_eq!((ours.to_string(), ours.checkpoint.log()), (note.clone(), Some(id)));
    assert_eq!(key.to_string().parse(), Ok(key.clone()));
    assert!(log.lines_text().contains(&format!("\"key\":\"{key}\",\"log\"")));
    // Signed notes in a text that has other lines, too.
    let text =
        format!("Sent on Friday:\n\n{note}\n7:{}\n{}", "ab".repeat(32), note.replace('\n', "\r\n"));
    let (checkpoints, rest) = SignedCheckpoint::parse_all(&text);
    assert_eq!(checkpoints, [ours.clone(), ours]);
    assert_eq!(rest.iter().filter(|line| line.starts_with("7:ab")).count(), 1);
    for (from, to) in
        [("\n7\n", "\n07\n"), ("\n7\n", "\n8\n"), ("courtesy/", "courtesy"), ("\n\n", "\n")]
    {
        assert_eq!(SignedCheckpoint::parse(&note.replacen(from, to, 1)), None, "{to:?}");
    }
}

#[test]
fn the_key_is_made_once_and_refused_where_others_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let (log, key) = logged(4);
    let mode = |mode| fs::set_permissions(log.key(), fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(fs::metadata(log.key()).unwrap().permissions().mode() & 0o777, 0o600);
    let names = || fs::read_dir(log.dir.path()).unwrap().count();
    assert_eq!(names(), 2, "the log and its key");
    let secret = fs::read_to_string(log.key()).unwrap();
    assert!(secret.starts_with("-----BEGIN PRIVATE KEY-----"));
    drop(log.open(|_| {}));
    assert_eq!(read_key(&log.audit()).unwrap(), Some(key));
    mode(0o640);
    let mut config = Config::new(log.audit());
    config.key = Some(log.key());
    for refused in [Writer::open(config.clone(), log.clock.clone()).map(drop), check(&config)] {
        let said = refused.unwrap_err();
        assert!(matches!(&said, OpenError::Key { path, .. } if *path == log.key()), "{said}");
    }
    mode(0o600);
    fs::write(log.key(), "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n").unwrap();
    assert!(NoteSigner::open(&log.key()).is_err());
}

#[test]
fn a_log_with_checkpoints_holds_and_it_is_said_whose_they_are() {
    let (log, key) = logged(9);
    let [(_, note)] = &log.checkpoints()[..] else { panic!("not one") };
    let stranger = Written::new();
    drop(stranger.open(|_| {}));
    let stranger = read_key(&stranger.audit()).unwrap().unwrap();
    let findings = log.verify(&[published(note)], &[]);
    assert_eq!((findings.faults.count, findings.checkpoints.signed), (0, Some(SignedBy::LogKey)));
    let held = &findings.published[0];
    assert_eq!(
        (held.state, held.root_holds, held.signed),
        (HeadState::Found, Some(true), Some(SignedBy::LogKey))
    );
    let findings = log.verify(&[published(note)], std::slice::from_ref(&key));
    assert_eq!(findings.faults.count, 0);
    assert_eq!(findings.checkpoints.up_to, Some(7));
    assert_eq!(findings.published[0].signed, Some(SignedBy::GivenKey));
    // With another key it says nothing, and the log's own are not what they are to be.
    let findings = log.verify(&[published(note)], &[stranger]);
    assert_eq!(findings.published[0].state, HeadState::NotSigned);
    let said = findings.faults.described[0].to_string();
    assert!(said.ends_with("not signed by the key that was given"), "{said}");
    assert!(findings.is_without_heads());
}

/// Writes the chain of the log anew, each line as `edit` has it.
fn remake(log: &Written, edit: impl Fn(u64, &mut Content)) {
    let (mut head, mut text) = (Head::genesis(), Vec::new());
    for mut content in contents(&log.audit().join(FILE_NAME)) {
        edit(content.seq(), &mut content);
        head.push(content, &mut text);
    }
    fs::write(log.audit().join(FILE_NAME), text).unwrap();
    fs::remove_file(log.audit().join(HEAD_NAME)).unwrap();
}

#[test]
fn a_chain_that_was_made_anew_contradicts_its_checkpoints() {
    let change = |seq, content: &mut Content| {
        if let (3, Content::Record(record)) = (seq, content) {
            record.url = Record::url(b"http://example.com/other");
        }
    };
    let (log, key) = logged(9);
    let [(_, note)] = &log.checkpoints()[..] else { panic!("not one") };
    let forger = NoteSigner::open(&log.dir.path().join("other.key")).unwrap().unwrap();
    let given = published(note);
    remake(&log, change);
    let said = |findings: &Findings| -> Vec<String> {
        findings.faults.described.iter().map(|fault| fault.problem.to_string()).collect()
    };
    let findings = log.verify(std::slice::from_ref(&given), &[]);
    assert_eq!(
        said(&findings),
        [
            "its checkpoint is not that of the lines before it: it is of another line",
            "another history: line 7 does not have the hash that was published"
        ]
    );
    // The same with the checkpoint signed anew: by a key that is not the log's, then by one that the
    // first line is made to name.
    let head_before = |seq: u64| {
        let all = log.hashes();
        let hash = crate::types::sanitize::hex(&all[seq as usize - 1]);
        (Head { hash, seq }, naive(&all[..seq as usize]))
    };
    let sign = |names: bool| {
        remake(&log, |seq, content| match content {
            Content::Notice(Notice::Started(started)) if names => {
                started.key = Some(forger.verifier_key(key.name.clone()));
            }
            _ => change(seq, content),
        });
        // The lines before the checkpoint are as they will be.
        let (head, root) = head_before(7);
        let origin = given.signed.as_ref().unwrap().checkpoint.origin.clone();
        let forged = forger.sign(Checkpoint { origin, head, root, time: NOON }).unwrap();
        fs::write(log.audit().join(HEAD_NAME), "").unwrap();
        remake(&log, |_, content| {
            if let Content::Notice(Notice::Checkpointed(it)) = content {
                it.note = forged.to_string();
            }
        });
    };
    fs::write(log.audit().join(HEAD_NAME), "").unwrap();
    sign(false);
    let why = "it is not signed by the key that the log names";
    assert!(said(&log.verify(&[], &[]))[0].ends_with(why));
    fs::write(log.audit().join(HEAD_NAME), "").unwrap();
    sign(true);
    assert_eq!(log.verify(&[], &[]).faults.count, 0, "who names the key can forge the log");
    assert!(said(&log.verify(&[], &[key]))[0].ends_with("not signed by the key that was given"));
    assert!(said(&log.verify(&[given], &[]))[0].starts_with("another history: line 7"));
}

#[test]
fn a_cut_log_a_forged_checkpoint_and_one_of_another_log_are_told_apart() {
    let (log, key) = logged(9);
    let (other, _) = logged(9);
    let [(_, note)] = &log.checkpoints()[..] else { panic!("not one") };
    let [(_, foreign)] = &other.checkpoints()[..] else { panic!("not one") };
    let key = std::slice::from_ref(&key);
    // Of another log: said, and no accusation.
    let findings = log.verify(&[published(foreign)], &[]);
    assert_eq!((findings.faults.count, findings.published[0].state), (0, HeadState::OtherLog));
    // The root was replaced, the signature left.
    let ours = SignedCheckpoint::parse(note).unwrap();
    let forged = SignedCheckpoint::parse(&note.replace(
        &ours.checkpoint.text(),
        &Checkpoint { root: [7; 32], ..ours.checkpoint.clone() }.text(),
    ));
    let forged = GivenHead::checkpoint(forged.unwrap());
    let findings = log.verify(std::slice::from_ref(&forged), key);
    assert_eq!((findings.faults.count, findings.published[0].state), (0, HeadState::NotSigned));
    // Without a key it is believed, as a head without a signature is.
    let findings = log.verify(&[forged, published(note)], &[]);
    let said = findings.faults.described[0].to_string();
    assert!(said.starts_with("another history: the lines up to 7 have not the root"), "{said}");
    assert_eq!(findings.published[0].signed, Some(SignedBy::Other));
    assert_eq!(findings.published[1].state, HeadState::Found);
    // The end was cut off, behind line 5.
    let kept: String = log.lines_text().split_inclusive('\n').take(5).collect();
    fs::write(log.audit().join(FILE_NAME), kept).unwrap();
    let findings = log.verify(&[published(note)], key);
    assert_eq!(findings.published[0].state, HeadState::CutOff);
}

#[test]
fn a_tree_goes_on_after_a_restart_and_after_a_kill() {
    let (log, _) = logged(9);
    let writer = log.open(|_| {});
    (0..300).for_each(|_| _ = write(&writer));
    // What a process that is killed leaves: no line was written by its end.
    let killed = Written::new();
    fs::create_dir(killed.audit()).unwrap();
    for entry in fs::read_dir(log.audit()).unwrap().flatten().filter(|it| it.path().is_file()) {
        fs::copy(entry.path(), killed.audit().join(entry.file_name())).unwrap();
    }
    fs::copy(log.key(), killed.key()).unwrap();
    drop(writer);
    for log in [&log, &killed] {
        let writer = log.open(|_| {});
        writer.queue_last_notices([checkpoint()]);
        writer.close().unwrap();
        let (seq, note) = log.checkpoints().pop().unwrap();
        let last = SignedCheckpoint::parse(&note).unwrap().checkpoint;
        let before = log.hashes().len() - 1;
        assert_eq!((seq, last.head.seq), (before as u64 + 1, before as u64));
        assert_eq!(last.root, naive(&log.hashes()[..before]));
        assert_eq!(log.verify(&[published(&note)], &[]).faults.count, 0);
    }
}

/// As when its files are removed, or set back to a copy, and the tiles are left there.
#[test]
fn a_log_that_was_begun_anew_is_not_taken_for_the_one_before_it() {
    let log = Written::new();
    let fill = |writer: &Writer, lines: u64| (0..lines).for_each(|_| _ = write(writer));
    let small = |config: &mut Config| config.rotate_size = 20_000;
    let writer = log.open(small);
    fill(&writer, 600);
    until("closed files have their leaves", || Tiles::of(&log.audit()).leaves(600) > 520);
    drop(writer);
    for entry in fs::read_dir(log.audit()).unwrap().flatten().filter(|it| it.path().is_file()) {
        fs::remove_file(entry.path()).unwrap();
    }
    let writer = log.open(small);
    fill(&writer, 300);
    until("closed files have their leaves", || Tiles::of(&log.audit()).leaves(300) > 270);
    drop(writer);
    let writer = log.open(small);
    writer.queue_last_notices([checkpoint()]);
    writer.close().unwrap();
    let findings = log.verify(&[], &[]);
    assert_eq!((findings.faults.count, findings.checkpoints.up_to), (0, Some(300)));
}

/// A log of which the first lines have been pruned, and the checkpoint of one of them.
fn pruned() -> (Written, GivenHead) {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let log = Written::new();
    let month = |config: &mut Config| {
        (config.rotate_size, config.retain) = (1, Some(30 * DAY));
    };
    let writer = log.open(month);
    writer.queue_notice(started());
    (0..5).for_each(|_| _ = write(&writer));
    writer.queue_notice(checkpoint());
    let mut note = None;
    until("it is written", || {
        note = log.checkpoints().pop().map(|(_, note)| note);
        note.is_some()
    });
    let given = published(&note.unwrap());
    // Then all of them are old at once: a `pruned` that ends before its line would name the line that it is of.
    let lines = chain(&log.audit()).len() as u64;
    until("its leaf is kept", || Tiles::of(&log.audit()).leaves(lines) == lines);
    log.clock.advance(40 * DAY);
    until("old lines are removed", || {
        // Retention looks when a file is closed. The line goes, and the next, which names its hash.
        let record = Record { time: log.clock.wall(), ..minimal() };
        block_on(writer.write(record, Vec::new())).unwrap();
        let findings = log.verify(std::slice::from_ref(&given), &[]);
        findings.published[0].state == HeadState::Kept
    });
    drop(writer);
    (log, given)
}

#[test]
fn what_was_published_of_pruned_lines_is_found_by_their_hashes() {
    let (log, given) = pruned();
    let findings = log.verify(std::slice::from_ref(&given), &[]);
    assert_eq!(findings.faults.count, 0, "{:?}", findings.faults);
    let is = (&findings.published[0], &findings.head, findings.lines);
    assert_eq!(
        findings.published[0].state,
        HeadState::Kept,
        "{is:?} {:?}",
        segment::list(&log.audit())
    );
    assert!(findings.checkpoints.lines_kept_by_hash > 6);
    assert!(findings.verdict().contains("of which the hashes are kept"), "{}", findings.verdict());
    // The next start goes on with the same tree.
    let writer = log.open(|_| {});
    writer.queue_last_notices([checkpoint()]);
    writer.close().unwrap();
    let findings = log.verify(std::slice::from_ref(&given), &[]);
    assert_eq!(findings.faults.count, 0, "{:?}", findings.faults);
    assert!(findings.checkpoints.up_to.is_some());
    // One of the kept hashes was changed.
    let tile = log.audit().join(TILES_NAME).join("0/000.p");
    let parts: Vec<_> = fs::read_dir(&tile).unwrap().flatten().map(|part| part.path()).collect();
    let whole: Vec<_> = parts.iter().map(|part| fs::read(part).unwrap()).collect();
    for (part, bytes) in parts.iter().zip(&whole) {
        let mut bytes = bytes.clone();
        bytes[1] ^= 1;
        fs::write(part, bytes).unwrap();
    }
    let findings = log.verify(std::slice::from_ref(&given), &[]);
    let said: Vec<_> = findings.faults.described.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|it| it.starts_with("another history: the lines up to")), "{said:?}");
    assert!(said.iter().any(|it| it.ends_with("its root is that of other lines")), "{said:?}");
    // They are gone: then nothing can be said.
    fs::remove_dir_all(log.audit().join(TILES_NAME)).unwrap();
    let findings = log.verify(&[given], &[]);
    assert_eq!((findings.faults.count, findings.published[0].state), (0, HeadState::Removed));
    assert_eq!(findings.checkpoints.lines_kept_by_hash, 0);
}

#[test]
fn a_log_of_an_earlier_version_that_was_pruned_has_a_tree_from_then_on() {
    let (log, given) = pruned();
    fs::remove_dir_all(log.audit().join(TILES_NAME)).unwrap();
    let writer = log.open(|_| {});
    writer.queue_notice(checkpoint());
    until("it is written", || !log.checkpoints().is_empty());
    drop(writer);
    let new = published(&log.checkpoints().pop().unwrap().1);
    let findings = log.verify(&[given, new], &[]);
    assert_eq!(findings.faults.count, 0, "{:?}", findings.faults);
    let states: Vec<_> =
        findings.published.iter().map(|held| (held.state, held.root_holds)).collect();
    assert_eq!(states, [(HeadState::Removed, None), (HeadState::Found, None)]);
}

#[test]
fn a_log_without_a_key_has_no_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path()).unwrap();
    writer.queue_notice(checkpoint());
    write(&writer);
    writer.queue_last_notices([checkpoint()]);
    writer.close().unwrap();
    assert_eq!(chain(dir.path()).len(), 1);
    let findings = verify(&Log::Dir(dir.path().to_owned()), &[], true, &mut |_, _| {}).unwrap();
    assert_eq!((findings.faults.count, findings.checkpoints.up_to), (0, None));
}

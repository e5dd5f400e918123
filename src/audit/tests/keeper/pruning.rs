//! Lines that are old go, and the evidence that only they name.

use super::*;

#[test]
fn lines_go_when_they_are_old_enough_and_the_log_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir.path(), clock.clone(), month).unwrap();
    for day in 0..40 {
        if day > 0 {
            clock.advance(DAY);
        }
        write_alone(&writer, &clock, &format!("day {day}"));
        until("all that is old is gone", || {
            let first = segment::list(dir.path()).unwrap().remove(0);
            // Gone since it was listed, perhaps.
            let Ok(mut lines) = first.lines() else { return false };
            let Ok(segment::FoundLine::Line(line)) = lines.next() else { return false };
            let age = clock.wall().since(Content::parse(line).unwrap().time());
            first.first_seq == 1 && day < 30 || day >= 30 && age < 30 * DAY
        });
    }
    until("the evidence has followed", || {
        (0..10).all(|day| !is_kept(dir.path(), &format!("day {day}")))
    });
    drop(writer);
    let contents = rest_of_chain(dir.path());
    let mut pruned = contents.iter().filter_map(|content| match content {
        Content::Notice(Notice::Pruned(pruned)) => Some(pruned),
        _ => None,
    });
    let last = pruned.next_back().unwrap();
    assert_eq!(
        last.last_seq,
        contents[0].seq() - 1,
        "the log begins where it says that it was cut"
    );
    assert!((10..40).all(|day| is_kept(dir.path(), &format!("day {day}"))));
}

#[test]
fn evidence_stays_as_long_as_any_file_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir.path(), clock.clone(), month).unwrap();
    ["old", "closed", "rotated", "written"].iter().for_each(|content| {
        write_alone(&writer, &clock, content);
    });
    clock.advance(20 * DAY);
    write_alone(&writer, &clock, "rotated");
    write_alone(&writer, &clock, "closed");
    until_put_away(dir.path(), 1..=6);
    drop(writer);
    // As another program rotates, which keeps files for longer.
    fs::rename(file_of(dir.path(), 5), dir.path().join("denials.jsonl.1.gz")).unwrap();
    fs::remove_file(dir.path().join("denials-000000000005.evidence")).unwrap();
    clock.advance(15 * DAY);
    let writer =
        open_at(dir.path(), clock.clone(), |config| config.retain = Some(30 * DAY)).unwrap();
    let mut record = Record { time: clock.wall(), ..full() };
    let robots = record.robots.as_mut().unwrap();
    (robots.sha256, robots.capture) = (Some(sha256_hex(b"written")), None);
    block_on(writer.write(record, vec![blob("written")])).unwrap();
    until("the old files and what only they named are gone", || {
        names(dir.path()) == put_away([6]) && !is_kept(dir.path(), "old")
    });
    for content in ["closed", "rotated", "written"] {
        assert!(is_kept(dir.path(), content), "{content}");
    }
    assert!(dir.path().join("denials.jsonl.1.gz").exists());
}

#[test]
fn the_evidence_of_lines_that_somebody_else_has_moved_away_stays() {
    let (dir, archive) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir.path(), clock.clone(), month).unwrap();
    write_alone(&writer, &clock, "moved");
    write_alone(&writer, &clock, "removed");
    until_put_away(dir.path(), 1..=2);
    fs::rename(file_of(dir.path(), 1), archive.path().join("a.gz")).unwrap();
    clock.advance(31 * DAY);
    write_alone(&writer, &clock, "new");
    until("the old one is removed", || !is_kept(dir.path(), "removed"));
    assert!(is_kept(dir.path(), "moved") && is_kept(dir.path(), "new"));
}

/// Text that compression makes hardly smaller.
fn dense(name: &str) -> String {
    let blocks = (0..500).map(|number| sha256_hex(format!("{name} {number}").as_bytes()));
    blocks.collect()
}

/// Bytes of all files below `dir`.
fn room_taken(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let each = entries.map(|entry| {
        if entry.file_type().unwrap().is_dir() {
            room_taken(&entry.path())
        } else if entry.file_name() == crate::audit::write::active_file::NAME {
            0
        } else {
            entry.metadata().map_or(0, |metadata| metadata.len())
        }
    });
    each.sum()
}

#[test]
fn the_oldest_lines_go_when_there_is_no_room_and_take_their_evidence() {
    /// Of about 15 KiB each, compressed, and their lines: room for five.
    const ROOM: u64 = 100 << 10;
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    let small = |config: &mut Config| (config.rotate_size, config.retain_size) = (3000, Some(ROOM));
    let writer = open_at(dir.path(), clock.clone(), small).unwrap();
    for number in 0..40 {
        write_naming(&writer, &clock, &dense(&format!("shared {}", number / 20)));
        write_naming(&writer, &clock, &dense(&format!("file {number}")));
    }
    // The keeper looks when a file is closed: lines without evidence close some more.
    until("there is room", || {
        write(&writer);
        room_taken(dir.path()) <= ROOM
    });
    drop(writer);
    let contents = rest_of_chain(dir.path());
    let mut pruned = contents.iter().filter_map(|content| match content {
        Content::Notice(Notice::Pruned(pruned)) => Some(pruned.last_seq),
        _ => None,
    });
    assert_eq!(
        pruned.next_back(),
        Some(contents[0].seq() - 1),
        "the log begins where it says that it was cut"
    );
    let is_file_kept = |number: u64| is_kept(dir.path(), &dense(&format!("file {number}")));
    assert!(!is_file_kept(0) && is_file_kept(39), "not the oldest went");
    let kept: Vec<_> = (0..40).map(is_file_kept).collect();
    assert!(kept.is_sorted(), "{kept:?}");
    // No more went than had to.
    assert!(kept.iter().filter(|is_kept| **is_kept).count() >= 2, "{kept:?}");
    assert!(!is_kept(dir.path(), &dense("shared 0")) && is_kept(dir.path(), &dense("shared 1")));
    let named = contents.iter().filter_map(|content| match content {
        Content::Record(record) => record.blobs().next(),
        Content::Notice(_) => None,
    });
    for (kind, sha256) in named {
        assert!(
            BlobStore::of(dir.path()).path(kind, &crate::types::sanitize::hex(&sha256)).exists(),
            "what is named is there"
        );
    }
}

#[test]
fn without_a_time_to_keep_nothing_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir.path(), clock.clone(), |config| config.rotate_size = 1).unwrap();
    write_alone(&writer, &clock, "old");
    clock.advance(10_000 * DAY);
    write_alone(&writer, &clock, "new");
    until_put_away(dir.path(), 1..=2);
    drop(writer);
    assert_eq!(chain(dir.path()).len(), 2);
    assert!(is_kept(dir.path(), "old"));
}

/// All lines that are left, found to follow one another.
#[track_caller]
fn rest_of_chain(dir: &Path) -> Vec<Content> {
    let mut contents: Vec<Content> = Vec::new();
    for segment in segment::list(dir).unwrap() {
        let mut lines = segment.lines().unwrap();
        while let segment::FoundLine::Line(line) = lines.next().unwrap() {
            checked_hash(line).unwrap();
            let content = Content::parse(line).unwrap();
            assert!(contents.last().is_none_or(|last| content.seq() == last.seq() + 1));
            contents.push(content);
        }
    }
    contents
}

//! The directory of the log is moved away while it is written: nothing is written anywhere, and all is
//! well again when it is back.

use std::fs;
use std::os::unix::fs::symlink;

use super::failure::Movable;
use super::*;

/// What is done at the path of the directory, which is away.
type Act<'a> = &'a dyn Fn(&Path);

#[test]
fn f15_a_directory_that_was_moved_is_not_written_on_nor_is_another() {
    let other: Act<'_> = &|dir| fs::create_dir(dir).unwrap();
    let link: Act<'_> = &|dir| {
        let elsewhere = dir.with_extension("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(elsewhere, dir).unwrap();
    };
    let nothing: Act<'_> = &|_| {};
    for (number, act) in [nothing, other, link].into_iter().enumerate() {
        let log = Movable::new();
        let writer = open(&log.dir).unwrap();
        assert_eq!((write(&writer), write(&writer)), (1, 2));
        log.move_away(&writer);
        act(&log.dir);
        block_on(writer.write(minimal(), Vec::new())).unwrap_err();
        let failing = writer.health().failing.unwrap();
        assert!(failing.contains("is not the one that was opened"), "{number}: {failing}");
        assert!(fs::read_dir(&log.dir).is_ok_and(|mut dir| dir.next().is_none()) || number == 0);
        // Not where a link leads to, either.
        if number > 0 {
            fs::remove_dir(&log.dir).or_else(|_| fs::remove_file(&log.dir)).unwrap();
        }
        log.move_back();
        until("it goes on in its place", || writer.health().failing.is_none());
        assert_eq!(write(&writer), 4, "{number}");
        let lines = chain(&log.dir);
        assert!(matches!(&lines[2], Content::Notice(Notice::Gap(Gap { lost: 1, .. }))));
    }
}

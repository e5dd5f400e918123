//! git, over its plain ("dumb") protocol: a repository that is only files, as any site can have one.

use std::fs;
use std::path::{Path, PathBuf};

use crate::clients::support::{Run, Site, apt, assert_denied, end};

const AUTHOR: [&str; 6] =
    ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"];

#[track_caller]
fn git(run: &Run<'_>, directory: &Path, arguments: &[&str]) {
    let ended = end(run.command("git").args(AUTHOR).args(arguments).current_dir(directory));
    assert_eq!(ended.code, Some(0), "{arguments:?} {ended:#?}");
}

/// A bare repository with one commit, ready to be served as files.
fn repository(run: &Run<'_>) -> PathBuf {
    let (work, bare) = (run.directory().join("work"), run.directory().join("bare"));
    git(run, run.directory(), &["init", "--quiet", "work"]);
    fs::write(work.join("page"), "a page\n").expect("a file");
    git(run, &work, &["add", "page"]);
    git(run, &work, &["commit", "--quiet", "--message=one"]);
    git(run, run.directory(), &["clone", "--quiet", "--bare", "work", "bare"]);
    git(run, &bare, &["update-server-info"]);
    bare
}

#[test]
#[ignore = "nightly"]
fn git_clone() {
    apt("git", "git");
    let site = Site::start();
    let run = Run::of(&site);
    let bare = repository(&run);
    for path in ["/repository", "/private/repository"] {
        site.publish(path, &bare);
    }
    for scheme in ["http", "https"] {
        let clone = ["git", "clone", "--quiet", &site.url(scheme, "/repository"), scheme];
        let ended = run.client(clone);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let page =
            fs::read_to_string(run.directory().join(scheme).join("page")).expect("what was cloned");
        assert_eq!(page, "a page\n");
        assert!(run.records().is_empty());
        let count =
            site.seen().iter().filter(|seen| seen.scheme == scheme && seen.by_proxy).count();
        assert_eq!(run.summary()["forwarded"], count, "all of it came by the proxy");

        let private = site.url(scheme, "/private/repository");
        let ended = run.client(["git", "clone", "--quiet", &private, "private"]);
        assert_eq!(ended.code, Some(128), "{ended:#?}");
        assert!(ended.stderr.contains("The requested URL returned error: 403"), "{ended:#?}");
        let [record] = &run.records()[..] else { panic!("{:#?}", run.records()) };
        assert_denied(record, &format!("{private}/info/refs?service=git-upload-pack"), "git/");
    }
    assert!(
        site.seen().iter().all(|seen| !seen.path.starts_with("/private/")),
        "{:#?}",
        site.seen()
    );
}

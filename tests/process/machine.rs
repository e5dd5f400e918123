//! What the processes of one state directory share: runs that follow each other, runs side by side, and a
//! proxy that stays are one towards a site.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::testkit::parties::{Origin, Script, answer, until};
use crate::testkit::processes::{Place, Serve, scale};
use crate::testkit::spacing::assert_origin_spaced;

const DELAY: Duration = Duration::from_millis(300);

fn site() -> Origin {
    Origin::with_robots("User-agent: *\nCrawl-delay: 0.3\n")
}

/// A run of curl, which prints the status of its request.
fn run(place: &Place, url: &str) -> Command {
    let mut command = place.command("run --summary none --allow-private --proxy-loopback --");
    command.args([
        "curl",
        "-s",
        "-A",
        "ExampleBot/1.0",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code} %header{retry-after}",
        url,
    ]);
    command.stdout(Stdio::piped());
    command
}

fn start(place: &Place, url: &str) -> Child {
    run(place, url).spawn().expect("it starts")
}

/// The status, and how long it is to be left alone.
#[track_caller]
fn shown(child: Child) -> (u16, u64) {
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    let (status, after) = text.split_once(' ').unwrap_or_else(|| panic!("{text:?}"));
    (status.parse().expect("a status"), after.parse().unwrap_or_default())
}

fn fetch(place: &Place, url: &str) -> (u16, u64) {
    shown(start(place, url))
}

#[test]
fn runs_one_after_another_remember_what_a_site_asks_for() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 3600\n");
    let place = Place::new("[pace]\nmax_wait = \"1s\"");
    let statuses = [0, 1, 2].map(|number| fetch(&place, &origin.url(&format!("/{number}"))));
    assert_eq!(statuses.map(|(status, _)| status), [200, 429, 429]);
    assert!((3000..=3600).contains(&statuses[1].1), "{statuses:?}");
    assert_eq!((origin.arrivals().len(), origin.count("/robots.txt")), (1, 1));
}

#[test]
fn runs_side_by_side_keep_one_pace_and_fetch_once() {
    let (origin, place) = (site(), Place::new(""));
    let runs: Vec<_> =
        (0..8).map(|number| start(&place, &origin.url(&format!("/{number}")))).collect();
    assert!(runs.into_iter().all(|run| shown(run).0 == 200));
    assert_origin_spaced(&origin, 8, DELAY);
    assert_eq!(origin.count("/robots.txt"), 1);
}

#[test]
fn a_proxy_that_stays_and_runs_beside_it_keep_one_pace() {
    let (origin, place) = (site(), Place::new(""));
    let serve = place.serve();
    for round in 0..3 {
        let run = start(&place, &origin.url(&format!("/run/{round}")));
        assert_eq!(serve.get(&origin.url(&format!("/{round}"))).status, 200);
        assert_eq!(shown(run).0, 200);
    }
    assert_origin_spaced(&origin, 6, DELAY);
    assert_eq!(origin.count("/robots.txt"), 1);
}

/// Also in the middle of what it writes.
#[test]
fn processes_that_are_killed_leave_the_pace_as_it_was() {
    let (origin, place) = (site(), Place::new(""));
    for round in 0..scale("COURTESY_TEST_KILLS", 5) {
        let mut runs: Vec<_> = (0..3)
            .map(|number| start(&place, &origin.url(&format!("/{round}/{number}"))))
            .collect();
        let before = origin.arrivals().len();
        until("a request has started", || origin.arrivals().len() > before);
        for run in &mut runs {
            run.kill().expect("it is there");
            run.wait().expect("it ends");
        }
    }
    let count = origin.arrivals().len();
    assert_origin_spaced(&origin, count, DELAY);
}

#[test]
fn a_hold_that_one_process_learns_is_obeyed_by_all() {
    let busy = answer(429, "Retry-After: 600\r\n", "");
    let origin = Origin::start().on("/busy", Script::default().send(busy));
    let place = Place::new("[pace]\nmax_wait = \"0s\"");
    let serve = place.serve();
    assert_eq!(serve.get(&origin.url("/open")).status, 200);
    assert_eq!(fetch(&place, &origin.url("/busy")), (429, 600));
    until("the proxy that stays has seen it", || serve.get(&origin.url("/page")).status == 429);
    let pages = origin.arrivals().len();
    let (status, after) = fetch(&place, &origin.url("/later"));
    assert!(status == 429 && (500..=600).contains(&after), "{status} {after}");
    assert_eq!(origin.arrivals().len(), pages);
}

/// What is in the way of the file, and whether another run knows what the first has learnt.
#[test]
fn a_file_that_cannot_be_used_ends_no_request() {
    let octets = |place: &Place| {
        let folder = place.state_dir().join("state");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("state.db"), [0x5a; 20_000]).expect("a file");
    };
    let newer = |place: &Place| {
        fetch(place, &Origin::start().url("/"));
        let file = place.state_dir().join("state/state.db");
        let set =
            "import sqlite3,sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA user_version = 99')";
        let made = Command::new("python3").args(["-c", set]).arg(file).status().expect("python3");
        assert!(made.success());
    };
    let no_folder = |place: &Place| {
        fs::create_dir_all(place.state_dir()).expect("a folder");
        fs::write(place.state_dir().join("state"), "").expect("a file");
    };
    type Spoil<'a> = &'a dyn Fn(&Place);
    let cases: [(&str, Spoil<'_>, bool); 3] = [
        ("random octets", &octets, true),
        ("a newer format", &newer, false),
        ("a file in place of the folder", &no_folder, false),
    ];
    for (case, spoil, is_replaced) in cases {
        let (origin, place) = (Origin::start(), Place::new(""));
        spoil(&place);
        assert_eq!(fetch(&place, &origin.url("/1")).0, 200, "{case}");
        assert_eq!(fetch(&place, &origin.url("/2")).0, 200, "{case}");
        let fetches = origin.count("/robots.txt");
        assert_eq!(fetches == 1, is_replaced, "{case}: {fetches} fetches");
        let aside = fs::read_dir(place.state_dir()).expect("a folder").filter(|entry| {
            let name = entry.as_ref().expect("an entry").file_name();
            name.to_string_lossy().starts_with("state.damaged-")
        });
        assert_eq!(aside.count(), usize::from(is_replaced), "{case}");
    }
}

#[test]
fn only_its_owner_reads_what_a_machine_knows() {
    let (origin, place) = (Origin::start(), Place::new(""));
    fetch(&place, &origin.url("/"));
    for name in ["state", "state/state.db", "state/state.db-wal"] {
        let mode = fs::metadata(place.state_dir().join(name)).expect(name).permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
}

/// In a home that cannot be written, as a container's: the runtime directory of the user is shared.
#[test]
fn runs_whose_state_cannot_be_written_share_the_runtime_directory() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 3600\n");
    let (place, runtime) = (Place::new("[pace]\nmax_wait = \"1s\""), tempfile::tempdir().unwrap());
    fs::set_permissions(runtime.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let fetch = |number: usize| {
        let mut run = run(&place, &origin.url(&format!("/{number}")));
        run.env("XDG_RUNTIME_DIR", runtime.path()).env("COURTESY__STATE_DIR", "/proc/state");
        shown(run.spawn().expect("it starts")).0
    };
    assert_eq!([0, 1].map(fetch), [200, 429]);
    assert_eq!((origin.arrivals().len(), origin.count("/robots.txt")), (1, 1));
    assert!(runtime.path().join("courtesy/state/state.db").exists());
}

/// A process that is stopped in the middle of a transaction holds the lock of the file.
#[test]
fn a_process_that_is_stopped_holds_up_no_other() {
    let (origin, place) = (site(), Place::new(""));
    let known = Origin::start();
    let mut beside = place.command("serve --allow-private");
    beside.env("COURTESY__AUDIT__DIR", place.path().join("other"));
    let (stopped, other) = (place.serve(), Serve::start(beside));
    assert_eq!(other.get(&known.url("/")).status, 200);
    for round in 0..scale("COURTESY_TEST_STOPS", 10) {
        let pid = Pid::from_raw(stopped.id().cast_signed()).expect("a process");
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| stopped.get(&origin.url(&format!("/a/{round}"))).status);
            kill_process(pid, Signal::STOP).expect("it is there");
            // One that it knows asks the file nothing, and one that is paced is never early.
            assert_eq!(other.get(&known.url("/")).status, 200);
            assert_eq!(other.get(&origin.url(&format!("/b/{round}"))).status, 200);
            kill_process(pid, Signal::CONT).expect("it is there");
            assert_eq!(asked.join().expect("an answer"), 200);
        });
    }
    let count = origin.arrivals().len();
    assert_origin_spaced(&origin, count, DELAY);
}

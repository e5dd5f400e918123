//! What is there before anything is asked: settings, addresses, directories, the authority.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use rustix::fs::{Access, access, statvfs};

use super::finding::Finding;
use crate::audit::read::Log;
use crate::audit::{is_written, read_head};
use crate::ca::{Authority, print_date};
use crate::cli::audit::line_selector::last_line;
use crate::cli::clients::reachable;
use crate::cli::flags::ConfigFlags;
use crate::cli::run::sealed::{self, Possible};
use crate::cli::store::size;
use crate::cli::{environment, health, temporary_dir};
use crate::clients::Users;
use crate::config::Settings;
use crate::engine::LocalFile;
use crate::proxy::OWN_NAME;
use crate::runtime::clock::{Clock, SystemClock};
use crate::runtime::crypto_provider;
use crate::store::disk::{Offline, OpenError, Stats};

/// Days before the end of a CA from which on `courtesy doctor` asks for another.
const CA_EXPIRY_NOTICE_DAYS: u64 = 30;

/// Proxy Authentication Required (RFC 9110 §15.5.8).
const ASKS_FOR_CREDENTIALS: u16 = 407;

/// Loads the settings: `None` if they cannot be used.
pub fn configuration(flags: &ConfigFlags) -> (Option<Settings>, Finding) {
    match flags.load_anywhere(&[]) {
        Ok(loaded) => {
            let mut said = match &loaded.file {
                Some(file) => format!("{} holds", file.display()),
                None => "no file, the defaults hold".into(),
            };
            for notice in loaded.notices(SystemClock.wall()) {
                said.push_str(&format!("\nnote: {notice}"));
            }
            (Some(loaded.settings), Finding::well("configuration", said))
        }
        Err(refusal) => {
            let remedy = "courtesy config default prints every setting with its meaning";
            (None, Finding::bad("configuration", refusal.to_string(), remedy))
        }
    }
}

/// Whether a command can have a network in which there is nothing but the proxy.
pub fn sealed_runs() -> Finding {
    const SUBJECT: &str = "sealed runs";
    temporary_dir::remove_abandoned();
    match sealed::attempt() {
        Ok(Possible { processes: true }) => {
            Finding::well(SUBJECT, "possible: courtesy run --sealed")
        }
        Ok(Possible { processes: false }) => {
            let said = "possible: courtesy run --sealed; /proc cannot be mounted, so what a command \
                        leaves behind goes on without a network";
            Finding::well(SUBJECT, said)
        }
        Err(failure) => Finding::untried(SUBJECT, format!("{:#}", failure.error)),
    }
}

/// By which TLS origins are reached: one that offers nothing of it fails in the handshake.
pub fn tls_to_origins() -> Finding {
    let groups = crypto_provider().kx_groups;
    let groups: Vec<_> = groups.iter().map(|group| format!("{:?}", group.name())).collect();
    let said = format!(
        "TLS 1.2 and 1.3 with AES-GCM and ChaCha20, key exchange by {}; origins that have CBC suites, \
         RSA key exchange or P-521 (secp521r1) only cannot be reached",
        groups.join(", ")
    );
    Finding::well("TLS to origins", said)
}

/// Whether each address can be bound, or a proxy listens there already.
pub fn listeners(settings: &Settings) -> Vec<Finding> {
    settings.listen.proxy.iter().map(|address| listener(*address)).collect()
}

fn listener(address: SocketAddr) -> Finding {
    let subject = format!("address {address}");
    match TcpListener::bind(address) {
        Ok(_) => Finding::well(subject, "free for courtesy serve"),
        Err(error) if error.kind() == ErrorKind::AddrInUse => occupied(subject, address),
        Err(error) => Finding::bad(
            subject,
            format!("cannot be listened on: {error}"),
            "choose another: listen.proxy, --listen",
        ),
    }
}

fn occupied(subject: String, address: SocketAddr) -> Finding {
    let remedy = "end what listens there, or choose another address: listen.proxy, --listen";
    let answer = health::http_get(reachable(address), &format!("http://{OWN_NAME}/"), "");
    match answer {
        Ok(Some(answer)) if answer.is_ours() && answer.status == ASKS_FOR_CREDENTIALS => {
            let said = "a courtesy answers there, and asks for a name and a password; to clients, courtesy env \
                        --user NAME says them";
            Finding::well(subject, said)
        }
        Ok(Some(answer)) if answer.is_ours() => Finding::well(subject, "a courtesy answers there"),
        Ok(Some(answer)) => Finding::bad(
            subject,
            format!("something else answers there: {}", answer.status_line()),
            remedy,
        ),
        Ok(None) => Finding::bad(subject, "what answers there does not speak HTTP", remedy),
        Err(error) => Finding::bad(subject, format!("in use, without an answer: {error}"), remedy),
    }
}

/// Whether the file of users can be read; empty without one.
pub fn users(settings: &Settings) -> Option<Finding> {
    let file = settings.clients.users_file.as_deref()?;
    Some(match Users::load(file) {
        Ok(users) if users.is_empty() => {
            let said = format!("{}: there is none, so no client can use the proxy", file.display());
            Finding::bad("users", said, "courtesy users add NAME")
        }
        Ok(users) => {
            Finding::well("users", format!("{}: {} may use the proxy", file.display(), users.len()))
        }
        Err(error) => Finding::bad("users", error.to_string(), "see courtesy users --help"),
    })
}

/// Whether the state directory can be written, tried with a file.
pub fn state_dir(settings: &Settings) -> Finding {
    let (dir, subject) = (&settings.state_dir, "state directory");
    let remedy = "make it writable, or choose another: state_dir, --state-dir";
    if dir.as_os_str().is_empty() {
        return Finding::bad(subject, "there is no home directory to keep state in", remedy);
    }
    let file = dir.join(format!("doctor-{}", std::process::id()));
    let written = std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&file, "can this be written?\n"))
        .and_then(|()| std::fs::remove_file(&file));
    match written {
        Ok(()) => Finding::well(subject, format!("{} can be written", dir.display())),
        Err(error) => {
            Finding::bad(subject, format!("{} cannot be written: {error}", dir.display()), remedy)
        }
    }
}

/// The authority, made if there is none, as at the first start.
pub fn authority(settings: &Settings) -> Finding {
    let (now, subject) = (SystemClock.wall(), "certificate authority");
    let source = settings.ca(environment::credentials_directory().as_deref());
    let authority = match Authority::open(&source, now) {
        Ok(authority) => authority,
        Err(error) => {
            let remedy =
                "until it can be used, HTTPS cannot be intercepted; see courtesy ca --help";
            return Finding::bad(subject, error.to_string(), remedy);
        }
    };
    let certificate = authority.certificate();
    let (name, date) = (certificate.subject(), print_date(certificate.not_after()));
    let said = format!("{}: {name}, until {date}", authority.file().display());
    match certificate.days_left(now) {
        0..CA_EXPIRY_NOTICE_DAYS => Finding::bad(
            subject,
            said,
            "courtesy ca rotate makes another; clients trust both for a while",
        ),
        _ => Finding::well(subject, said),
    }
}

// What is kept: the records of denials, and what is known of origins. A look, and no more: whether
// every line holds is for `courtesy audit verify`.

/// Room on the disk under which `courtesy doctor` asks for more: a closed file of the log and its
/// compressed copy stand side by side for a moment, and so do two copies of a small store.
const DISK_FREE_NOTICE_BYTES: u64 = 256 << 20;

/// Whether the log can be written, and reaches the head that was noted.
pub fn check_records(settings: &Settings) -> Finding {
    let (dir, subject) = (settings.audit().dir, "denial records");
    let shown = dir.display();
    if !dir.exists() {
        return Finding::well(subject, format!("none in {shown} yet"));
    }
    if let Err(error) = access(&dir, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        let remedy = "give it to the user of the proxy, or choose another: audit.dir";
        return Finding::bad(subject, format!("{shown} cannot be written: {error}"), remedy);
    }
    let is_written = is_written(&dir);
    let noted = read_head(&dir);
    let last = match last_line(Log::Dir(dir.clone())) {
        Ok(last) => last.map_or(0, |last| last.head.seq),
        Err(error) => {
            return Finding::bad(subject, format!("{:#}", anyhow::Error::from(error)), VERIFY);
        }
    };
    let ends = format!("{shown}, up to line {last}");
    match noted {
        // Read before the lines, it is never ahead of them.
        Ok(Some((noted, _))) if noted.seq > last => {
            let said = format!("{ends}; line {} is known to have been written", noted.seq);
            Finding::bad(subject, said, VERIFY)
        }
        Ok(_) => {
            let now = if is_written { ", being written" } else { "" };
            with_room(subject, format!("{ends}{now}"), &dir)
        }
        Err(error) => {
            Finding::bad(subject, format!("{ends}; head.json cannot be used: {error}"), VERIFY)
        }
    }
}

const VERIFY: &str = "courtesy audit verify says what is missing";

/// Whether the store can be used.
pub fn check_store(settings: &Settings) -> Finding {
    let subject = "store of what is known of origins";
    if !settings.store.enabled {
        return Finding::well(subject, "off (store.enabled): a restart forgets");
    }
    let dir = settings.shared_state_dir();
    let path = LocalFile::path(&dir);
    let path = path.display();
    match Offline::open(&dir).and_then(|file| file.stats()) {
        Ok(Stats { entries, file_bytes, .. }) => {
            let said = format!("{path}, {}, origins: {entries}", size(file_bytes));
            with_room(subject, said, &settings.state_dir)
        }
        Err(OpenError::Missing(_)) => Finding::well(subject, format!("none at {path} yet")),
        Err(error) => {
            let remedy = "without it nothing is denied less, but a restart forgets";
            Finding::bad(subject, error.to_string(), remedy)
        }
    }
}

/// It is well as long as there is room on the disk.
fn with_room(subject: &str, said: String, dir: &Path) -> Finding {
    // A file system that does not tell is none to complain of.
    let Ok(disk) = statvfs(dir) else { return Finding::well(subject, said) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let said = format!("{said}; {} free", size(free));
    if free < DISK_FREE_NOTICE_BYTES {
        let remedy =
            "make room: denials go on without records when the disk is full (audit.on_failure)";
        Finding::bad(subject, said, remedy)
    } else {
        Finding::well(subject, said)
    }
}

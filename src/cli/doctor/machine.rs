//! What is there before anything is asked: settings, addresses, directories, the authority.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use super::super::clients::reachable;
use super::super::flags::ConfigFlags;
use super::super::run::sealed::{self, Possible};
use super::super::{environment, http, temporary_dir};
use super::finding::Finding;
use crate::ca::{Authority, print_date};
use crate::clients::Users;
use crate::config::Settings;
use crate::proxy::OWN_NAME;
use crate::runtime::clock::{Clock, SystemClock};
use crate::runtime::crypto_provider;

/// Days before the end of a CA from which on `courtesy doctor` asks for another.
const CA_EXPIRY_NOTICE_DAYS: u64 = 30;

/// Proxy Authentication Required (RFC 9110 §15.5.8).
const ASKS_FOR_CREDENTIALS: u16 = 407;

/// Loads the settings: `None` if they cannot be used.
pub fn configuration(flags: &ConfigFlags) -> (Option<Settings>, Finding) {
    match flags.load(None) {
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
    let answer = http::get(reachable(address), &format!("http://{OWN_NAME}/"), "");
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
    let file = dir.join(format!("doctor-{}", std::process::id()));
    let written = std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&file, "can this be written?\n"))
        .and_then(|()| std::fs::remove_file(&file));
    match written {
        Ok(()) => Finding::well(subject, format!("{} can be written", dir.display())),
        Err(error) => {
            let remedy = "make it writable, or choose another: state_dir, --state-dir";
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

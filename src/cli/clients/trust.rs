//! The files by which clients trust our certificate authority, written where they have changed.
//! Bundles *add* our authority to the system's: most variables replace what a client trusts, and a
//! host that is tunnelled, or left out of the proxy, still shows the certificate of somebody else.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::{Trust, java};
use crate::ca::pem;

/// What is in effect in the environment that the files are made for.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    /// `$SSL_CERT_FILE`.
    pub bundle: Option<PathBuf>,
    /// `$WGETRC`.
    pub wgetrc: Option<PathBuf>,
    /// `$HOME`.
    pub home: Option<PathBuf>,
}

/// Writes the files into `dir`, which holds nothing else: it may be shown to a container, and the
/// key of the authority may not. `authority` is our certificates as PEM: during a rotation, two.
pub fn prepare(dir: &Path, authority: &str, inherited: &Inherited) -> io::Result<Trust> {
    fs::create_dir_all(dir)?;
    let trust = Trust {
        authority: dir.join("ca.pem"),
        bundle: dir.join("bundle.pem"),
        wgetrc: dir.join("wgetrc"),
        java: None,
    };
    write_if_changed(&trust.authority, authority.as_bytes())?;
    let bundle = system_authorities(inherited, &trust.bundle) + authority;
    write_if_changed(&trust.bundle, bundle.as_bytes())?;
    write_if_changed(&trust.wgetrc, wgetrc(inherited, &trust).as_bytes())?;
    let java = java::store(dir, authority);
    Ok(Trust { java, ..trust })
}

/// What clients trust without us. Where the environment names our own bundle, as after an `eval
/// "$(courtesy env)"`, the platform's is taken: else an authority that was retired would stay.
fn system_authorities(inherited: &Inherited, own: &Path) -> String {
    let platform = Path::new("/etc/ssl/certs/ca-certificates.crt");
    let found = match &inherited.bundle {
        Some(bundle) if bundle == own && platform.is_file() => {
            rustls_native_certs::load_certs_from_paths(Some(platform), None)
        }
        _ => rustls_native_certs::load_native_certs(),
    };
    if found.certs.is_empty() {
        warn!(
            "no certificate authorities of the system were found: the bundle for clients has ours only"
        );
    }
    found.certs.iter().map(|certificate| pem(certificate)).collect()
}

/// The settings of the user's wget, and the one line that it needs: the variable names a file that
/// is read instead of theirs.
fn wgetrc(inherited: &Inherited, trust: &Trust) -> String {
    let named = inherited.wgetrc.clone().filter(|file| *file != trust.wgetrc);
    let theirs = named.or_else(|| inherited.home.as_ref().map(|home| home.join(".wgetrc")));
    let mut settings = theirs.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    if !settings.is_empty() && !settings.ends_with('\n') {
        settings.push('\n');
    }
    settings + &format!("ca_certificate = {}\n", super::text(&trust.bundle))
}

/// In one step, so that no client reads half a file; and only where it differs, so that nobody takes
/// an old file for a new one.
pub fn write_if_changed(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let fresh = path.with_extension(format!("fresh-{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o644).open(&fresh)?.write_all(content)?;
    fs::rename(fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> String {
        rcgen::generate_simple_self_signed(["authority.example".to_owned()]).unwrap().cert.pem()
    }

    #[test]
    fn a_bundle_adds_ours_to_the_systems() {
        let dir = tempfile::tempdir().unwrap();
        let theirs = dir.path().join("theirs.pem");
        fs::write(&theirs, authority()).unwrap();
        let found = rustls_native_certs::load_certs_from_paths(Some(&theirs), None);
        let again: String = found.certs.iter().map(|certificate| pem(certificate)).collect();
        assert_eq!(again, fs::read_to_string(&theirs).unwrap().replace("\r\n", "\n"));

        let ours = authority();
        let trust = prepare(dir.path(), &ours, &Inherited::default()).unwrap();
        assert!(fs::read_to_string(&trust.bundle).unwrap().ends_with(&ours));
        assert_eq!(fs::read_to_string(&trust.authority).unwrap(), ours);
    }

    #[test]
    fn a_file_that_is_right_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bundle.pem");
        write_if_changed(&path, b"one").unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        write_if_changed(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        write_if_changed(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
    }

    #[test]
    fn wget_keeps_the_settings_it_has() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".wgetrc"), "wait = 1").unwrap();
        let mut inherited = Inherited { home: Some(dir.path().to_owned()), ..Inherited::default() };
        let trust = prepare(dir.path(), &authority(), &inherited).unwrap();
        let expected = format!("wait = 1\nca_certificate = {}\n", trust.bundle.display());
        assert_eq!(fs::read_to_string(&trust.wgetrc).unwrap(), expected);
        // Made again where it is in effect already, it says the same.
        inherited.wgetrc = Some(trust.wgetrc.clone());
        prepare(dir.path(), &authority(), &inherited).unwrap();
        assert_eq!(fs::read_to_string(&trust.wgetrc).unwrap(), expected);
    }
}

//! The files that make clients trust the proxy's certificate authority, written when they change.
//! Bundles *add* the authority to the system's: most variables replace what a client trusts, and a
//! host that is tunnelled, or contacted directly, still has a certificate of another authority.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::java;
use super::setup::{TrustFiles, text};
use super::write::write_if_changed;
use crate::ca::pem;

/// The settings of the environment that the files are made for.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    /// `$SSL_CERT_FILE`.
    pub bundle: Option<PathBuf>,
    /// `$WGETRC`.
    pub wgetrc: Option<PathBuf>,
    /// `$HOME`.
    pub home: Option<PathBuf>,
}

/// Writes the files into `dir`, which holds nothing else: it may be mounted into a container, and
/// the authority's key may not. `authority` holds its certificates as PEM: two during a rotation.
pub fn prepare(dir: &Path, authority: &str, inherited: &Inherited) -> io::Result<TrustFiles> {
    fs::create_dir_all(dir)?;
    let trust = TrustFiles {
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
    Ok(TrustFiles { java, ..trust })
}

/// The authorities that clients trust without the proxy. When the environment names the proxy's own
/// bundle, as after `eval "$(courtesy env)"`, the platform's are taken instead: otherwise a retired
/// authority would stay in the bundle.
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

/// The user's own settings for wget with the one line that it needs: WGETRC names a file that is
/// read instead of the user's.
fn wgetrc(inherited: &Inherited, trust: &TrustFiles) -> String {
    let named = inherited.wgetrc.clone().filter(|file| *file != trust.wgetrc);
    let theirs = named.or_else(|| inherited.home.as_ref().map(|home| home.join(".wgetrc")));
    let mut settings = theirs.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    if !settings.is_empty() && !settings.ends_with('\n') {
        settings.push('\n');
    }
    settings + &format!("ca_certificate = {}\n", text(&trust.bundle))
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
    fn wget_keeps_the_settings_it_has() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".wgetrc"), "wait = 1").unwrap();
        let mut inherited = Inherited { home: Some(dir.path().to_owned()), ..Inherited::default() };
        let trust = prepare(dir.path(), &authority(), &inherited).unwrap();
        let expected = format!("wait = 1\nca_certificate = {}\n", trust.bundle.display());
        assert_eq!(fs::read_to_string(&trust.wgetrc).unwrap(), expected);
        // Made again when it is in effect already, it stays the same.
        inherited.wgetrc = Some(trust.wgetrc.clone());
        prepare(dir.path(), &authority(), &inherited).unwrap();
        assert_eq!(fs::read_to_string(&trust.wgetrc).unwrap(), expected);
    }
}

//! The system's store of certificate authorities, with the proxy's added: copies that are mounted
//! over the files and the directory by which programs find them without any variable.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::{Map, Value, json};
use tracing::warn;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::mounts::Mount;
use crate::cli::clients::TrustFiles;
use crate::cli::environment;

/// Files with all authorities: of Debian and Alpine, Fedora (two), OpenSSL's own, SUSE (two).
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/var/lib/ca-certificates/ca-bundle.pem",
];

/// The directory in which OpenSSL looks for a file by the hash of a name (openssl-rehash(1)).
const DIRECTORY: &str = "/etc/ssl/certs";

/// The trust store of Java on Debian.
const JAVA: &str = "/etc/ssl/certs/java/cacerts";

/// The mounts; copies are made in `dir`.
///
/// # Errors
///
/// When a copy cannot be made.
pub fn mounts(trust: &TrustFiles, dir: &Path) -> io::Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    let directory = Path::new(DIRECTORY);
    if directory.is_dir() {
        let copy = dir.join("certs");
        copy_links(directory, &copy)?;
        add(&copy, &fs::read(&trust.authority)?)?;
        mounts.push(Mount { source: copy, target: directory.canonicalize()? });
    }
    // After the directory, so that they are found in it.
    let java = trust.java.as_deref().map(|store| (JAVA, store));
    for (target, source) in BUNDLES.iter().map(|file| (*file, &*trust.bundle)).chain(java) {
        let Ok(target) = Path::new(target).canonicalize() else { continue };
        mounts.push(Mount { source: source.to_owned(), target });
    }
    mounts.dedup_by(|one, other| one.target == other.target);
    Ok(mounts)
}

/// Each certificate of the authority as a file of its own in `dir`, for programs that read one only.
///
/// # Errors
///
/// When one cannot be read or written.
pub fn one_by_one(trust: &TrustFiles, dir: &Path) -> io::Result<Vec<PathBuf>> {
    let pem = fs::read(&trust.authority)?;
    let certificates = Pem::iter_from_buffer(&pem).enumerate().map(|(number, found)| {
        let file = dir.join(format!("authority-{number}.pem"));
        fs::write(&file, crate::ca::pem(&found.map_err(io::Error::other)?.contents))?;
        Ok(file)
    });
    certificates.collect()
}

/// Copies the directory `from`; its links stay links.
pub fn copy_links(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            symlink(fs::read_link(&path)?, &copy)?;
        } else if kind.is_dir() {
            copy_links(&path, &copy)?;
        } else {
            // What only another user may read, the command could not read either.
            match fs::copy(&path, &copy) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                copied => drop(copied?),
            }
        }
    }
    Ok(())
}

/// Adds the certificates of `pem`, each under the hash of its name.
fn add(dir: &Path, pem: &[u8]) -> io::Result<()> {
    for (number, found) in Pem::iter_from_buffer(pem).enumerate() {
        let certificate = found.map_err(io::Error::other)?.contents;
        let hash = subject_hash(&certificate).ok_or_else(|| io::Error::other("no certificate"))?;
        let file = dir.join(format!("courtesy-{number}.pem"));
        fs::write(&file, crate::ca::pem(&certificate))?;
        let free = (0..).map(|end| dir.join(format!("{hash:08x}.{end}")));
        let link = free.into_iter().find(|link| link.symlink_metadata().is_err());
        let name = PathBuf::from(format!("courtesy-{number}.pem"));
        symlink(name, link.expect("numbers do not end"))?;
    }
    Ok(())
}

/// The hash of a certificate's subject, as X509_NAME_hash(3): the first four bytes, the last first,
/// of the SHA-1 of the name in its canonical form, in which texts are UTF-8, in lower case (ASCII),
/// and with single spaces.
fn subject_hash(certificate: &[u8]) -> Option<u32> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut canonical = Vec::new();
    for set in certificate.subject().iter() {
        let mut members: Vec<_> = set
            .iter()
            .map(|attribute| {
                let tag = u8::try_from(attribute.attr_value().tag().0).ok()?;
                let text = match tag {
                    // Read as ISO 8859-1, as OpenSSL does.
                    T61_STRING => {
                        Some(attribute.as_slice().iter().copied().map(char::from).collect())
                    }
                    _ => attribute.as_str().ok().map(str::to_owned),
                };
                let value = match text {
                    Some(text) => der(UTF8_STRING, canonical_text(&text).as_bytes()),
                    None => der(tag, attribute.as_slice()),
                };
                let kind = der(OBJECT_IDENTIFIER, attribute.attr_type().as_bytes());
                Some(der(SEQUENCE, &[kind, value].concat()))
            })
            .collect::<Option<_>>()?;
        members.sort();
        canonical.extend(der(SET, &members.concat()));
    }
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &canonical);
    Some(u32::from_le_bytes(hash.as_ref().get(..4)?.try_into().ok()?))
}

/// Tags of DER (X.690 §8).
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const T61_STRING: u8 = 0x14;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

fn canonical_text(text: &str) -> String {
    let words: Vec<_> = text.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
    words.join(" ")
}

/// A value with its tag and length (X.690 §8.1.3).
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut bytes = vec![tag];
    match length[..] {
        [] => bytes.push(0),
        [short @ 0..0x80] => bytes.push(short),
        _ => {
            bytes.push(0x80 | u8::try_from(length.len()).expect("at most eight"));
            bytes.extend(length);
        }
    }
    bytes.extend(content);
    bytes
}

// Firefox, which has roots of its own: a policy (`Certificates.Install`) has it trust the proxy's
// authority. A copy of each directory of policies that is there is mounted over it.

/// Directories that are copied, each with the file of policies in it. Firefox reads the one of `/etc`,
/// else the one beside the program.
const DIRECTORIES: [(&str, &str); 6] = [
    ("/etc/firefox", "policies/policies.json"),
    ("/usr/lib/firefox/distribution", "policies.json"),
    ("/usr/lib64/firefox/distribution", "policies.json"),
    ("/usr/lib/firefox-esr/distribution", "policies.json"),
    ("/opt/firefox/distribution", "policies.json"),
    ("/usr/local/lib/firefox/distribution", "policies.json"),
];

/// The mounts; copies are made in `dir`. What cannot be done is logged.
pub fn firefox_mounts(authorities: &[PathBuf], dir: &Path) -> Vec<Mount> {
    let found = DIRECTORIES.iter().enumerate().filter(|(_, (it, _))| Path::new(it).is_dir());
    let made = found.filter_map(|(number, (directory, file))| {
        let copy = dir.join(format!("firefox-{number}"));
        match firefox_copy_with(Path::new(directory), &copy, file, authorities) {
            Ok(target) => Some(Mount { source: copy, target }),
            Err(error) => {
                warn!("{directory} stays as it is: {error}");
                None
            }
        }
    });
    let mut mounts: Vec<_> = made.collect();
    mounts.dedup_by(|one, other| one.target == other.target);
    mounts
}

fn firefox_copy_with(
    from: &Path,
    to: &Path,
    file: &str,
    authorities: &[PathBuf],
) -> io::Result<PathBuf> {
    copy_links(from, to)?;
    let file = to.join(file);
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let present = match fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read?),
    };
    let policies = with_authorities(present.as_deref(), authorities);
    let policies = policies.ok_or_else(|| io::Error::other("policies.json cannot be read"))?;
    // What it may be a link to is another's.
    let _ = fs::remove_file(&file);
    fs::write(&file, policies)?;
    from.canonicalize()
}

/// The text of `policies.json` with `authorities` added; `None` if what is there is no such file.
fn with_authorities(present: Option<&str>, authorities: &[PathBuf]) -> Option<String> {
    let mut whole: Value = match present {
        Some(text) => serde_json::from_str(text).ok()?,
        None => json!({}),
    };
    let policies = member(&mut whole, "policies", || Value::Object(Map::new()))?;
    let certificates = member(policies, "Certificates", || Value::Object(Map::new()))?;
    let install = member(certificates, "Install", || Value::Array(Vec::new()))?;
    let paths = authorities.iter().map(|path| Value::from(path.to_string_lossy()));
    install.as_array_mut()?.extend(paths);
    serde_json::to_string_pretty(&whole).ok()
}

fn member<'a>(
    of: &'a mut Value,
    name: &str,
    absent: impl FnOnce() -> Value,
) -> Option<&'a mut Value> {
    Some(of.as_object_mut()?.entry(name).or_insert_with(absent))
}

// The user's NSS databases, which Chromium reads, with the proxy's authority added: copies, made by
// certutil(1) where it is there, that are mounted over them. The user's own are not changed.

/// Below the home directory: that of all versions, and that of newer ones (XDG).
const DATABASES: [&str; 2] = [".pki/nssdb", ".local/share/pki/nssdb"];

/// Bytes of a database that is copied: far more than certificates take.
const DATABASE_BYTES_MAX: u64 = 64 << 20;

/// The mounts; copies are made in `dir`. What cannot be done is logged: the variables are left.
pub fn nss_mounts(authorities: &[PathBuf], dir: &Path) -> Vec<Mount> {
    let Some(home) = environment::variable("HOME") else { return Vec::new() };
    let databases = DATABASES.iter().map(|database| Path::new(&home).join(database));
    let found = databases.filter(|it| it.join("cert9.db").is_file()).enumerate();
    let made = found.filter_map(|(number, database)| {
        let copy = dir.join(format!("nssdb-{number}"));
        match nss_copy_with(&database, &copy, authorities) {
            Ok(target) => Some(Mount { source: copy, target }),
            Err(error) => {
                warn!("{} stays as it is: {error}", database.display());
                None
            }
        }
    });
    made.collect()
}

fn nss_copy_with(from: &Path, to: &Path, authorities: &[PathBuf]) -> io::Result<PathBuf> {
    fs::create_dir(to)?;
    let mut left = DATABASE_BYTES_MAX;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        let bytes = entry.metadata()?.len();
        left = left.checked_sub(bytes).ok_or_else(|| io::Error::other("it is too large"))?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    for (number, authority) in authorities.iter().enumerate() {
        add_service(to, number, authority)?;
    }
    from.canonicalize()
}

/// Adds one as trusted for servers (`C,,`).
fn add_service(database: &Path, number: usize, authority: &Path) -> io::Result<()> {
    let mut certutil = Command::new("certutil");
    certutil.args(["-A", "-n", &format!("courtesy-{number}"), "-t", "C,,", "-i"]).arg(authority);
    certutil.arg("-d").arg(format!("sql:{}", database.display()));
    let output = certutil.stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other("certutil is not there (libnss3-tools)"),
        _ => error,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("certutil: {}", said.lines().next().unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those by which the authorities of this machine are linked.
    #[test]
    fn hashes_are_those_of_openssl() {
        let mut compared = 0;
        for entry in fs::read_dir(DIRECTORY).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(hash) = name.strip_suffix(".0").filter(|hash| hash.len() == 8) else {
                continue;
            };
            let pem = fs::read(entry.path()).unwrap();
            let found = Pem::iter_from_buffer(&pem).next().unwrap().unwrap();
            let computed = subject_hash(&found.contents).unwrap();
            assert_eq!(format!("{computed:08x}"), hash, "{name}");
            compared += 1;
        }
        assert!(compared > 50 || !Path::new(DIRECTORY).is_dir(), "{compared} were compared");
    }

    #[test]
    fn a_copy_has_what_there_was_and_the_authority() {
        let dir = tempfile::tempdir().unwrap();
        let key = rcgen::generate_simple_self_signed(["ca.example".to_owned()]).unwrap();
        let from = dir.path().join("from");
        fs::create_dir(&from).unwrap();
        fs::write(from.join("one.pem"), "one").unwrap();
        symlink("one.pem", from.join("00000000.0")).unwrap();
        let copy = dir.path().join("copy");
        copy_links(&from, &copy).unwrap();
        add(&copy, key.cert.pem().as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(copy.join("00000000.0")).unwrap(), "one");
        let hash = subject_hash(key.cert.der()).unwrap();
        let linked = fs::read_to_string(copy.join(format!("{hash:08x}.0"))).unwrap();
        assert_eq!(linked.replace("\r\n", "\n"), key.cert.pem().replace("\r\n", "\n"));
    }

    #[test]
    fn policies_keep_what_there_was_and_have_the_authorities() {
        let authorities = ["/run/a.pem".into()];
        let with = |present| {
            let text = with_authorities(present, &authorities)?;
            Some(serde_json::from_str::<Value>(&text).unwrap()["policies"].clone())
        };
        let alone = json!({ "Certificates": { "Install": ["/run/a.pem"] } });
        assert_eq!(with(None), Some(alone));
        let present = r#"{"policies": {"DisableTelemetry": true,
            "Certificates": {"ImportEnterpriseRoots": true, "Install": ["own.pem"]}}}"#;
        let both = json!({ "DisableTelemetry": true, "Certificates": {
            "ImportEnterpriseRoots": true, "Install": ["own.pem", "/run/a.pem"] } });
        assert_eq!(with(Some(present)), Some(both));
        for broken in ["", "[]", r#"{"policies": 1}"#] {
            assert_eq!(with(Some(broken)), None, "{broken}");
        }
    }

    #[test]
    fn a_copy_of_the_directory_has_the_policies() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("distribution.ini"), "own").unwrap();
        firefox_copy_with(&from, &to, "policies/policies.json", &["/run/a.pem".into()]).unwrap();
        assert_eq!(fs::read_to_string(to.join("distribution.ini")).unwrap(), "own");
        let policies = fs::read_to_string(to.join("policies/policies.json")).unwrap();
        assert!(policies.contains("/run/a.pem"), "{policies}");
        assert!(!from.join("policies").exists());
    }
}

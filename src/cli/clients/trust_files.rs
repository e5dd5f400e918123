//! The files that make clients trust the proxy's certificate authority, written when they change.
//! Bundles *add* the authority to the system's: most variables replace what a client trusts, and a
//! host that is tunnelled, or contacted directly, still has a certificate of another authority.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tracing::warn;

use crate::ca::pem;
use crate::cli::environment;

/// The files that make clients trust the proxy's certificate authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustFiles {
    /// The proxy's authority alone, for variables that add to what the client trusts.
    pub authority: PathBuf,
    /// The system's authorities and the proxy's, for variables that replace what the client trusts.
    pub bundle: PathBuf,
    /// Settings for wget, which takes its authorities from no variable.
    pub wgetrc: PathBuf,
    /// A Java trust store; `None` without a `keytool` to make one.
    pub java: Option<PathBuf>,
}

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
pub fn prepare_files(dir: &Path, authority: &str, inherited: &Inherited) -> io::Result<TrustFiles> {
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
    let java = java_store(dir, authority);
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

// A trust store for Java, made by its own `keytool`: Java's authorities and the proxy's. Without Java
// there is none, and a failure is only a warning: the crawl goes on.

/// The password of the trust store, which is no secret: that of Java's own stores.
pub const PASSWORD: &str = "changeit";

const END_OF_CERTIFICATE: &str = "-----END CERTIFICATE-----\n";

/// The store, and the authority that it was made for.
const FILES: [&str; 2] = ["java.truststore", "java.made-for"];

/// Copies the store of one directory to another, unless it has the same. What fails is made again.
pub fn copy_store(from: &Path, to: &Path) {
    let [here, there] = [from, to].map(|dir| fs::read(dir.join(FILES[1])).ok());
    if here.is_some() && here != there {
        let made = fs::create_dir_all(to);
        let _ = made.and_then(|()| {
            FILES.iter().try_for_each(|name| fs::copy(from.join(name), to.join(name)).map(drop))
        });
    }
}

/// The store in `dir`. It is made only when `authority` has changed: each start of `keytool` takes a
/// large part of a second.
pub fn java_store(dir: &Path, authority: &str) -> Option<PathBuf> {
    let keytool = environment::find_program("keytool")?;
    let [store, made_for] = FILES.map(|name| dir.join(name));
    if store.is_file() && fs::read_to_string(&made_for).is_ok_and(|text| text == authority) {
        return Some(store);
    }
    let made = make(&keytool, &store, authority)
        .and_then(|()| write_if_changed(&made_for, authority.as_bytes()));
    made.map_err(|error| warn!("no trust store for Java could be made: {error}"))
        .ok()
        .map(|()| store)
}

fn make(keytool: &Path, store: &Path, authority: &str) -> io::Result<()> {
    let fresh = store.with_extension(format!("fresh-{}", std::process::id()));
    // Where the JDK is, its authorities are: bin/keytool, lib/security/cacerts.
    let keytool = fs::canonicalize(keytool)?;
    let home = keytool.ancestors().nth(2).unwrap_or(Path::new("/"));
    fs::copy(home.join("lib/security/cacerts"), &fresh)?;
    // It reads one certificate at a time, and during a rotation there are two.
    for (number, certificate) in authority.split_inclusive(END_OF_CERTIFICATE).enumerate() {
        import(&keytool, &fresh, &format!("courtesy-{number}"), certificate)?;
    }
    fs::rename(fresh, store)
}

fn import(keytool: &Path, store: &Path, alias: &str, certificate: &str) -> io::Result<()> {
    let mut command = Command::new(keytool);
    command
        .args(["-importcert", "-noprompt", "-alias", alias, "-storepass", PASSWORD, "-keystore"])
        .arg(store);
    // With these it would announce itself and, once ours are in effect, read the store it makes.
    command.env_remove("JAVA_TOOL_OPTIONS");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(certificate.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }
}

// Settings for PHP, which reads no variable for its streams and none for trust: a directory that
// `PHP_INI_SCAN_DIR` adds to those it reads, with an ini file, and a script that the ini file puts
// before every other one.

/// Before a colon stands what is read first; an empty entry is the directory that PHP was built with.
const SCAN_DIR: &str = "PHP_INI_SCAN_DIR";

/// Streams take a proxy from a context alone. The default context is that of every stream that is
/// opened without one; it cannot leave hosts out, so loopback goes to the proxy as well.
const SCRIPT: &str = r"<?php
// Written by courtesy: leads file_get_contents, fopen, copy and the like through the proxy.
(static function () {
    if (!preg_match('~^http://(?:([^/@]*)@)?([^/]+)~', (string) getenv('http_proxy'), $proxy)) {
        return;
    }
    $http = ['proxy' => 'tcp://' . $proxy[2], 'request_fulluri' => true];
    if ($proxy[1] !== '') {
        $http['header'] = 'Proxy-Authorization: Basic ' . base64_encode(rawurldecode($proxy[1]));
    }
    stream_context_set_default(['http' => $http]);
})();
";

/// Writes the files below `dir`, and returns the value of `PHP_INI_SCAN_DIR` that adds them to what
/// `inherited`, its value now, has. `bundle` are the authorities to trust, where others than the
/// system's are.
pub fn prepare_php(dir: &Path, bundle: Option<&Path>, inherited: &str) -> io::Result<String> {
    let dir = dir.join("php");
    std::fs::create_dir_all(&dir)?;
    let theirs = without(inherited, &dir);
    let script = dir.join("courtesy.php");
    let mut ini = format!("auto_prepend_file={}\n", ini_quoted(&script));
    for setting in ["curl.cainfo", "openssl.cafile"] {
        ini.extend(bundle.map(|bundle| format!("{setting}={}\n", ini_quoted(bundle))));
    }
    let before = prepended(&theirs)
        .map(|file| format!("require {};\n", php_quoted(&file)))
        .unwrap_or_default();
    write_if_changed(&script, (SCRIPT.to_owned() + &before).as_bytes())?;
    write_if_changed(&dir.join("courtesy.ini"), ini.as_bytes())?;
    Ok(format!("{theirs}:{}", text(&dir)))
}

/// The list without our directory, as after an `eval "$(courtesy env)"`.
fn without(list: &str, dir: &Path) -> String {
    list.split(':').filter(|entry| Path::new(entry) != dir).collect::<Vec<_>>().join(":")
}

/// The script that PHP puts before every other one by itself: ours takes its place, and runs it.
fn prepended(scan_dir: &str) -> Option<String> {
    let mut php = Command::new(environment::find_program("php")?);
    php.args(["-r", "echo ini_get('auto_prepend_file');"])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    match scan_dir {
        "" => php.env_remove(SCAN_DIR),
        list => php.env(SCAN_DIR, list),
    };
    let said = php.output().ok().filter(|output| output.status.success())?.stdout;
    Some(String::from_utf8_lossy(&said).into_owned()).filter(|file| !file.is_empty())
}

/// Within single quotes an ini file has no escapes; within others `$` has a meaning.
fn ini_quoted(path: &Path) -> String {
    let path = text(path);
    if path.contains('\'') {
        format!("\"{}\"", path.replace('"', "\\\""))
    } else {
        format!("'{path}'")
    }
}

fn php_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

/// The directory that a value of `PHP_INI_SCAN_DIR` ends in.
pub fn own(scan_dir: &str) -> Option<PathBuf> {
    scan_dir.rsplit(':').next().filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// A path as text for a variable.
pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Writes `content` in one step, so that no client reads half a file; and only if it differs, so that
/// the time of the file is that of its last change.
fn write_if_changed(path: &Path, content: &[u8]) -> io::Result<()> {
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
    use crate::cli::environment;

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
        let trust = prepare_files(dir.path(), &ours, &Inherited::default()).unwrap();
        assert!(fs::read_to_string(&trust.bundle).unwrap().ends_with(&ours));
        assert_eq!(fs::read_to_string(&trust.authority).unwrap(), ours);
    }

    #[test]
    fn wget_keeps_the_settings_it_has() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".wgetrc"), "wait = 1").unwrap();
        let mut inherited = Inherited { home: Some(dir.path().to_owned()), ..Inherited::default() };
        let trust = prepare_files(dir.path(), &authority(), &inherited).unwrap();
        let expected = format!("wait = 1\nca_certificate = {}\n", trust.bundle.display());
        assert_eq!(fs::read_to_string(&trust.wgetrc).unwrap(), expected);
        // Made again when it is in effect already, it stays the same.
        inherited.wgetrc = Some(trust.wgetrc.clone());
        prepare_files(dir.path(), &authority(), &inherited).unwrap();
        assert_eq!(fs::read_to_string(&trust.wgetrc).unwrap(), expected);
    }

    #[test]
    fn the_store_has_the_systems_authorities_and_each_of_ours() {
        let Some(keytool) = environment::find_program("keytool") else { return };
        let dir = tempfile::tempdir().unwrap();
        let authority =
            || rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap().cert.pem();
        let both = (authority() + &authority()).replace("\r\n", "\n");
        let store = java_store(dir.path(), &both).unwrap();
        let mut list = Command::new(keytool);
        list.args(["-list", "-storepass", PASSWORD, "-keystore"]).arg(&store);
        let list = String::from_utf8(list.output().unwrap().stdout).unwrap();
        assert!(list.contains("courtesy-0,") && list.contains("courtesy-1,"), "{list}");
        assert!(list.matches("trustedCertEntry").count() > 10, "{list}");
    }

    #[test]
    fn what_php_reads_already_stays_and_ours_is_added_once() {
        let dir = tempfile::tempdir().unwrap();
        let own_dir = text(&dir.path().join("php"));
        let added = prepare_php(dir.path(), None, "").unwrap();
        assert_eq!(added, format!(":{own_dir}"));
        assert_eq!(prepare_php(dir.path(), None, &added).unwrap(), added);
        assert_eq!(
            prepare_php(dir.path(), None, "/etc/php.d:").unwrap(),
            format!("/etc/php.d::{own_dir}")
        );
        assert_eq!(own(&added), Some(dir.path().join("php")));
        let ini = std::fs::read_to_string(dir.path().join("php/courtesy.ini")).unwrap();
        assert_eq!(ini, format!("auto_prepend_file='{own_dir}/courtesy.php'\n"));
    }

    #[test]
    fn a_script_that_php_puts_first_by_itself_runs_after_ours() {
        if environment::find_program("php").is_none() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (theirs, first) = (dir.path().join("theirs"), dir.path().join("first's.php"));
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(&first, "<?php $first = 'first';\n").unwrap();
        std::fs::write(theirs.join("a.ini"), format!("auto_prepend_file={}\n", ini_quoted(&first)))
            .unwrap();
        let scan_dir = prepare_php(dir.path(), None, &text(&theirs)).unwrap();
        let script = dir.path().join("script.php");
        std::fs::write(
            &script,
            "<?php echo $first, json_encode(stream_context_get_options(stream_context_get_default()));\n",
        )
        .unwrap();
        let mut php = Command::new("php");
        php.arg(script).env(SCAN_DIR, scan_dir).env("http_proxy", "http://a%20b:c@127.0.0.1:3128");
        let said = String::from_utf8(php.output().unwrap().stdout).unwrap();
        let said = said.strip_prefix("first").unwrap_or_else(|| panic!("{said}"));
        let http = &serde_json::from_str::<serde_json::Value>(said).unwrap()["http"];
        assert_eq!(http["proxy"], "tcp://127.0.0.1:3128");
        // "a b:c"
        assert_eq!(http["header"], "Proxy-Authorization: Basic YSBiOmM=");
    }

    #[test]
    fn an_unchanged_file_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bundle.pem");
        write_if_changed(&path, b"one").unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        write_if_changed(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        write_if_changed(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
    }
}

//! A trust store for Java, made by its own `keytool`: Java's authorities and the proxy's. Without Java
//! there is none, and a failure is only a warning: the crawl goes on.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tracing::warn;

use super::super::which;
use super::write::write_if_changed;

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
pub fn store(dir: &Path, authority: &str) -> Option<PathBuf> {
    let keytool = which::find("keytool")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_has_the_systems_authorities_and_each_of_ours() {
        let Some(keytool) = which::find("keytool") else { return };
        let dir = tempfile::tempdir().unwrap();
        let authority =
            || rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap().cert.pem();
        let both = (authority() + &authority()).replace("\r\n", "\n");
        let store = store(dir.path(), &both).unwrap();
        let mut list = Command::new(keytool);
        list.args(["-list", "-storepass", PASSWORD, "-keystore"]).arg(&store);
        let list = String::from_utf8(list.output().unwrap().stdout).unwrap();
        assert!(list.contains("courtesy-0,") && list.contains("courtesy-1,"), "{list}");
        assert!(list.matches("trustedCertEntry").count() > 10, "{list}");
    }
}

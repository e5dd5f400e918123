//! Firefox, which has roots of its own: a policy (`Certificates.Install`) has it trust the proxy's
//! authority. A copy of each directory of policies that is there is mounted over it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tracing::warn;

use super::mounts::Mount;
use super::trust::copy_links;

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
pub fn mounts(authorities: &[PathBuf], dir: &Path) -> Vec<Mount> {
    let found = DIRECTORIES.iter().enumerate().filter(|(_, (it, _))| Path::new(it).is_dir());
    let made = found.filter_map(|(number, (directory, file))| {
        let copy = dir.join(format!("firefox-{number}"));
        match copy_with(Path::new(directory), &copy, file, authorities) {
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

fn copy_with(from: &Path, to: &Path, file: &str, authorities: &[PathBuf]) -> io::Result<PathBuf> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
        copy_with(&from, &to, "policies/policies.json", &["/run/a.pem".into()]).unwrap();
        assert_eq!(fs::read_to_string(to.join("distribution.ini")).unwrap(), "own");
        let policies = fs::read_to_string(to.join("policies/policies.json")).unwrap();
        assert!(policies.contains("/run/a.pem"), "{policies}");
        assert!(!from.join("policies").exists());
    }
}

//! The few settings that locate a running proxy, read without diagnostics: also from a file with
//! errors elsewhere, or that cannot be parsed to its end.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::host_defaults::{SettingsFile, state_dir};
use super::layers::{FileLayer, variable};
use super::values::AdminAddress;

/// The location of a proxy with these settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Directories that may be its state directory, the likeliest first.
    pub state_dirs: Vec<PathBuf>,
    pub admin: AdminAddress,
    pub token_file: Option<PathBuf>,
    /// Why the file could not be read to its end.
    pub problem: Option<String>,
}

/// Reads them. `named` is the file of `--config`, `state_dir` that of `--state-dir`.
pub fn locate(
    named: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    state_dir_flag: Option<&str>,
) -> Location {
    let variables: Vec<_> = environment.into_iter().collect();
    let found = SettingsFile::find(named, &variables);
    let (file, problem) = match found.read() {
        Ok(Some(bytes)) => read(&found.path, &String::from_utf8_lossy(&bytes)),
        Ok(None) => (Vec::new(), None),
        Err(error) => (Vec::new(), Some(format!("cannot read {}: {error}", found.path.display()))),
    };
    let in_file =
        |key: &str| file.iter().find(|(name, _)| *name == key).map(|(_, text)| text.clone());
    let in_variables = |key: &str| {
        let name = variable(key);
        variables.iter().find(|(variable, _)| *variable == name).map(|(_, text)| text.clone())
    };
    let set = |key: &str| in_variables(key).or_else(|| in_file(key));
    let state_dirs = match state_dir_flag.map(str::to_owned).or_else(|| in_variables("state_dir")) {
        Some(dir) => vec![dir],
        // The file may have said something else when the proxy was started.
        None => {
            let by_default = state_dir(&variables).and_then(|dir| dir.into_string().ok());
            in_file("state_dir").into_iter().chain(by_default).collect()
        }
    };
    Location {
        state_dirs: state_dirs.into_iter().map(PathBuf::from).collect(),
        admin: set("listen.admin").and_then(|text| text.parse().ok()).unwrap_or_default(),
        token_file: set("admin.token_file").map(PathBuf::from),
        problem,
    }
}

/// The readable part of the file, and the first error.
fn read(path: &Path, text: &str) -> (Vec<(&'static str, String)>, Option<String>) {
    let problem = FileLayer::parse(path, text).err().map(|diagnostic| diagnostic.to_string());
    let (table, _) = DeTable::parse_recoverable(text);
    let keys = ["state_dir", "listen.admin", "admin.token_file"];
    (
        keys.into_iter().filter_map(|key| Some((key, text_at(table.get_ref(), key)?))).collect(),
        problem,
    )
}

fn text_at(table: &DeTable<'_>, key: &str) -> Option<String> {
    match key.split_once('.') {
        Some((name, rest)) => match table.get(name)?.get_ref() {
            DeValue::Table(below) => text_at(below, rest),
            _ => None,
        },
        None => match table.get(key)?.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, variables: &[(&str, &str)], flag: Option<&str>) -> Location {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        std::fs::write(&file, text).unwrap();
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        locate(Some(&file), variables, flag)
    }

    #[test]
    fn a_file_that_is_wrong_elsewhere_still_says_where_the_proxy_is() {
        for wrong in [
            "robots.profil = 1",
            "[robots",
            "mode = = 1\n",
            "x = \"unended\n[store]\nenabled = false",
        ] {
            let text = format!(
                "state_dir = \"/s\"\nlisten.admin = \"127.0.0.1:9\"\nadmin.token_file = \"/t\"\n{wrong}\n"
            );
            let found = of(&text, &[], None);
            assert_eq!(found.state_dirs, [PathBuf::from("/s")], "{wrong}");
            assert_eq!(found.admin.to_string(), "127.0.0.1:9", "{wrong}");
            assert_eq!(found.token_file, Some("/t".into()), "{wrong}");
            assert_eq!(found.problem.is_none(), wrong.starts_with("robots.profil "), "{wrong}");
        }
    }

    #[test]
    fn a_flag_goes_before_a_variable_and_that_before_the_file() {
        let file = "state_dir = \"/file\"\n[listen]\nadmin = \"127.0.0.1:1\"\n";
        let variables = [
            ("COURTESY__STATE_DIR", "/variable"),
            ("COURTESY__LISTEN__ADMIN", "off"),
            ("STATE_DIRECTORY", "/systemd"),
        ];
        assert_eq!(of(file, &variables, Some("/flag")).state_dirs, [PathBuf::from("/flag")]);
        let found = of(file, &variables, None);
        assert_eq!(found.state_dirs, [PathBuf::from("/variable")]);
        assert_eq!(found.admin, AdminAddress::Off);
        let found = of(file, &variables[2..], None);
        assert_eq!(found.state_dirs, [PathBuf::from("/file"), PathBuf::from("/systemd")]);
        assert_eq!(found.admin.to_string(), "127.0.0.1:1");
    }

    #[test]
    fn what_cannot_be_read_is_the_default_and_said() {
        let found = locate(Some(Path::new("/nowhere/at/all")), [], None);
        assert_eq!(found.admin, AdminAddress::default());
        assert!(found.problem.unwrap().starts_with("cannot read /nowhere/at/all: "));
        assert_eq!(of("listen.admin = 7", &[], None).admin, AdminAddress::default());
    }
}

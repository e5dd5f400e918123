//! Settings for PHP, which reads no variable for its streams and none for trust: a directory that
//! `PHP_INI_SCAN_DIR` adds to those it reads, with an ini file, and a script that the ini file puts
//! before every other one.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::which;
use super::setup::text;
use super::write::write_if_changed;

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
pub fn prepare(dir: &Path, bundle: Option<&Path>, inherited: &str) -> io::Result<String> {
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
    let mut php = Command::new(which::find("php")?);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_php_reads_already_stays_and_ours_is_added_once() {
        let dir = tempfile::tempdir().unwrap();
        let own_dir = text(&dir.path().join("php"));
        let added = prepare(dir.path(), None, "").unwrap();
        assert_eq!(added, format!(":{own_dir}"));
        assert_eq!(prepare(dir.path(), None, &added).unwrap(), added);
        assert_eq!(
            prepare(dir.path(), None, "/etc/php.d:").unwrap(),
            format!("/etc/php.d::{own_dir}")
        );
        assert_eq!(own(&added), Some(dir.path().join("php")));
        let ini = std::fs::read_to_string(dir.path().join("php/courtesy.ini")).unwrap();
        assert_eq!(ini, format!("auto_prepend_file='{own_dir}/courtesy.php'\n"));
    }

    #[test]
    fn a_script_that_php_puts_first_by_itself_runs_after_ours() {
        if which::find("php").is_none() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (theirs, first) = (dir.path().join("theirs"), dir.path().join("first's.php"));
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(&first, "<?php $first = 'first';\n").unwrap();
        std::fs::write(theirs.join("a.ini"), format!("auto_prepend_file={}\n", ini_quoted(&first)))
            .unwrap();
        let scan_dir = prepare(dir.path(), None, &text(&theirs)).unwrap();
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
}

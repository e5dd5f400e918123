//! Formats the variables for each reader. Values come from settings and paths; whatever they hold, no
//! shell takes it for anything but text.

use std::path::Path;

use super::trust_files::{self, text};
use super::variables::{ClientSetup, Variable, names, reachable, variables};

/// For `eval "$(…)"` in bash, zsh and every other shell like sh. The semicolons keep it
/// correct without the quotes.
pub fn posix(setup: &ClientSetup) -> String {
    let line = |variable: &Variable| {
        format!("export {}={};\n", variable.name, posix_quoted(&variable.value))
    };
    variables(setup).iter().map(line).collect()
}

/// For `courtesy env --shell fish | source`.
pub fn fish(setup: &ClientSetup) -> String {
    let line = |variable: &Variable| {
        format!("set -gx {} {};\n", variable.name, fish_quoted(&variable.value))
    };
    variables(setup).iter().map(line).collect()
}

/// Removes every variable that [`posix`] may set.
pub fn posix_unset() -> String {
    names().map(|name| format!("unset {name};\n")).collect()
}

/// Removes every variable that [`fish`] may set.
pub fn fish_unset() -> String {
    names().map(|name| format!("set -e {name};\n")).collect()
}

/// A list of objects.
pub fn json(setup: &ClientSetup) -> String {
    serde_json::to_string_pretty(&variables(setup)).expect("variables are plain values") + "\n"
}

/// For `eval "docker run $(…) IMAGE"`: on one line, quoted for the shell. A container has a loopback
/// of its own, so that it must share ours to reach a listener there.
pub fn docker(setup: &ClientSetup) -> String {
    let mut words = Vec::new();
    if reachable(setup.proxy).ip().is_loopback() {
        words.push("--network host".to_owned());
    }
    if let Some(dir) = trust_files::own(&setup.php_scan_dir).as_deref().and_then(Path::parent) {
        // Under its own path, so that the variables say the same inside and outside.
        let volume = format!("{0}:{0}:ro", text(dir));
        words.push(format!("--volume {}", posix_quoted(&volume)));
    }
    for variable in variables(setup) {
        words.push(format!(
            "--env {}",
            posix_quoted(&format!("{}={}", variable.name, variable.value))
        ));
    }
    words.join(" ") + "\n"
}

/// For files of variables: compose, systemd, dotenv libraries and shells read them, each with rules of its
/// own. `docker run --env-file` is no such reader: it takes quotes for part of the value.
pub fn dotenv(setup: &ClientSetup) -> String {
    let line =
        |variable: &Variable| format!("{}={}\n", variable.name, dotenv_quoted(&variable.value));
    variables(setup).iter().map(line).collect()
}

/// Double quotes where nothing in them is special to any reader, else single quotes, which all of them
/// take by the letter; where neither will do, as a shell and systemd have it.
fn dotenv_quoted(text: &str) -> String {
    if !text.contains(['"', '\\', '$', '`']) {
        return format!("\"{text}\"");
    }
    if !text.contains(['\'', '\\']) {
        return format!("'{text}'");
    }
    let escape = |it: char| if "\"\\$`".contains(it) { format!("\\{it}") } else { it.to_string() };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

/// Within single quotes nothing is special to a POSIX shell, except their end.
fn posix_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// In fish a backslash is special there, too, before itself and before the quote.
fn fish_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::super::variables::tests::setup;
    use super::*;

    /// What fish makes of one word within single quotes (its manual, "Quotes").
    fn read_by_fish(word: &str) -> String {
        let mut characters = word[1..word.len() - 1].chars().peekable();
        let mut text = String::new();
        while let Some(character) = characters.next() {
            match (character, characters.peek()) {
                ('\\', Some('\\' | '\'')) => text.extend(characters.next()),
                ('\'', _) => panic!("the quotes end early in {word}"),
                _ => text.push(character),
            }
        }
        text
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_posix_shell_reads_back_what_was_quoted(text in "[^\0]{0,40}", plain in "[ '\"$`\\\\;&\n]{0,8}") {
            let text = text + &plain;
            let script = format!("export X={};\nprintf %s \"$X\"", posix_quoted(&text));
            let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
            prop_assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        }

        #[test]
        fn a_shell_reads_back_a_file_of_variables(text in "[^\0]{0,40}", plain in "[ '\"$`\\\\;&\n]{0,8}") {
            let text = text + &plain;
            let script = format!("set -a\nX={}\nprintf %s \"$X\"", dotenv_quoted(&text));
            let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
            prop_assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        }

        #[test]
        fn fish_reads_back_what_was_quoted(text in "[^\0]{0,40}", special in "['\\\\]{0,8}") {
            let text = text + &special;
            prop_assert_eq!(read_by_fish(&fish_quoted(&text)), text);
        }
    }

    #[test]
    fn a_container_shares_the_loopback_only_where_the_proxy_is_there() {
        let arguments = docker(&setup("127.0.0.1:3128"));
        assert!(
            arguments
                .starts_with("--network host --volume '/state/clients:/state/clients:ro' --env '"),
            "{arguments}"
        );
        assert!(
            arguments.contains(" --env 'SSL_CERT_FILE=/state/clients/bundle.pem' "),
            "{arguments}"
        );
        assert!(!docker(&setup("192.0.2.7:3128")).contains("--network"));
    }
}

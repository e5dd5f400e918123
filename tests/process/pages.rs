//! The generated reference pages: settings from `config/courtesy.toml`, commands from their help.
//! `COURTESY_UPDATE_DOCS=1` writes them anew.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the repository is.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Compares a page with `text`, or writes it if a developer asks for that.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a developer asks for the rewriting by it")]
fn holds(page: &str, text: &str) {
    let path = Path::new(ROOT).join("docs/reference").join(page);
    if std::env::var_os("COURTESY_UPDATE_DOCS").is_some() {
        fs::write(&path, text).expect("the page is writable");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differing = found.lines().zip(text.lines()).find(|(found, made)| found != made);
    assert!(
        found == text,
        "docs/reference/{page} is out of date ({differing:?}): \
         COURTESY_UPDATE_DOCS=1 cargo test --test process pages"
    );
}

/// Text as the cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// A key and its value, if the line sets one; keys of examples stand behind a `#`.
fn setting(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(" = ")?;
    let is_key = key.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
    (is_key && !key.is_empty()).then_some((key, value))
}

/// A table's name, if the line opens one.
fn section(line: &str) -> Option<&str> {
    let name = line.strip_prefix('[')?.strip_suffix(']')?;
    Some(name.trim_matches(['[', ']']))
}

fn configuration() -> String {
    let source =
        fs::read_to_string(Path::new(ROOT).join("config/courtesy.toml")).expect("the file");
    let mut page = "# Configuration\n\n\
        Generated from [`config/courtesy.toml`](../../config/courtesy.toml), which `courtesy config default` prints. \
        Where settings come from, and what a running proxy takes up: [a proxy that stays](../guide/serve.md#settings), \
        [reload](../operate/reload-and-drain.md#reload). What is kept of persons: [personal data](../operate/personal-data.md).\n\n\
        An example stands where a setting has no default.\n"
        .to_owned();
    let head = "\n| Setting | Default | Meaning |\n| --- | --- | --- |\n";
    let mut comment = String::new();
    let mut is_table_open = false;
    // The first paragraph is about the file.
    for line in source.lines().skip_while(|line| !line.is_empty()) {
        let bare = line.trim_start_matches("# ");
        if let Some(name) = section(bare) {
            write!(page, "\n## `{name}`\n").expect("text");
            if !comment.is_empty() {
                write!(page, "\n{}\n", comment.trim()).expect("text");
            }
            comment.clear();
            is_table_open = false;
        } else if let Some((key, value)) = setting(bare) {
            if !is_table_open {
                page.push_str(head);
                is_table_open = true;
            }
            let default = if line.starts_with('#') {
                format!("– (`{value}`)")
            } else {
                format!("`{value}`")
            };
            let row = format!("| `{key}` | {} | {} |\n", cell(&default), cell(comment.trim()));
            page.push_str(&row);
            comment.clear();
        } else if let Some(text) = line.strip_prefix('#') {
            comment.push_str(text);
        }
    }
    page
}

/// What a command prints.
fn printed(arguments: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_courtesy"))
        .args(arguments)
        .env("COLUMNS", "100")
        .output()
        .expect("the program runs");
    assert!(done.status.success(), "{arguments:?}: {done:?}");
    String::from_utf8(done.stdout).expect("text")
}

/// The subcommands that a help lists.
fn subcommands(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").collect()
}

/// Appends the help of a command and of those below it.
fn describe(words: &[&str], page: &mut String) {
    let help = printed(&[words, &["--help"]].concat());
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let name = [&["courtesy"], words].concat().join(" ");
    write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n")).expect("text");
    for command in subcommands(&help) {
        describe(&[words, &[command]].concat(), page);
    }
}

fn commands() -> String {
    let mut page = "# Commands\n\n\
        Generated from the help of each command. [Exit codes](exit-codes.md) have a page.\n"
        .to_owned();
    describe(&[], &mut page);
    page
}

#[test]
fn the_page_of_settings_is_the_file_of_defaults() {
    let page = configuration();
    assert!(page.lines().filter(|line| line.starts_with("| `")).count() > 80, "{page}");
    holds("configuration.md", &page);
}

#[test]
fn the_page_of_commands_is_their_help() {
    let page = commands();
    assert!(page.matches("\n## `courtesy ").count() > 15, "{page}");
    holds("cli.md", &page);
}

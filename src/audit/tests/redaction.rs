//! What no file of the log has when it is to be redacted: values of queries, parts of paths, clients.

use super::*;

fn naming(url: &str) -> Record {
    Record { url: Record::url(url.as_bytes()), ..minimal() }
}

#[test]
fn values_are_redacted_the_same_way_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut urls = Vec::new();
    for _ in 0..2 {
        let writer = open_with(dir.path(), |config| config.redact_query = true).unwrap();
        let record = naming("http://example.com/search?q=secret");
        let redacted = writer.redacted(&record).url.clone();
        assert!(redacted.starts_with("http://example.com/search?q=~"), "{redacted}");
        block_on(writer.write(record, Vec::new())).unwrap();
    }
    for content in contents(&dir.path().join(FILE_NAME)) {
        let Content::Record(record) = content else { panic!("{content:?}") };
        urls.push(record.url);
    }
    assert!(!urls[0].contains("secret"));
    assert_eq!(urls[0], urls[1]);
}

#[test]
fn lines_of_allowed_requests_are_redacted_like_records() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open_with(dir.path(), |config| config.redact_query = true).unwrap();
    let url = "http://example.com/search?q=secret";
    let allowed = Record { url: Record::url(url.as_bytes()), ..notices::allowed() };
    block_on(writer.write_allowed(Box::new(allowed), Vec::new())).unwrap();
    let text = std::fs::read_to_string(dir.path().join(FILE_NAME)).unwrap();
    assert!(text.contains("search?q=~") && !text.contains("secret"), "{text}");
}

#[test]
fn without_the_setting_urls_are_as_requested_and_there_is_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path()).unwrap();
    let record = naming("http://example.com/search?q=public");
    assert_eq!(*writer.redacted(&record), record);
    block_on(writer.write(record.clone(), Vec::new())).unwrap();
    let Content::Record(written) = contents(&dir.path().join(FILE_NAME)).remove(0) else {
        panic!()
    };
    assert_eq!(written.url, record.url);
    assert!(!dir.path().join("redact.key").exists());
}

#[test]
fn a_redacted_line_has_the_bound_of_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open_with(dir.path(), |config| config.redact_query = true).unwrap();
    let url = format!("http://example.com/?{}", "a&".repeat(50_000));
    block_on(writer.write(naming(&url), Vec::new())).unwrap();
    let length = std::fs::metadata(dir.path().join(FILE_NAME)).unwrap().len();
    let bound = crate::audit::RECORD_LINE_BYTES_MAX as u64;
    assert!(length > 8 << 10 && length < bound / 2, "{length}");
}

#[test]
fn a_key_that_is_damaged_keeps_the_log_from_being_written_with_another() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("redact.key"), "short").unwrap();
    let error = open_with(dir.path(), |config| config.redact_query = true).unwrap_err();
    let OpenError::Io { source, .. } = error else { panic!("{error}") };
    assert!(source.to_string().contains("redact.key"), "{source}");
}

/// The clients of the records in `dir`.
fn clients(dir: &Path) -> Vec<Client> {
    let of = |content| match content {
        Content::Record(record) => record.client,
        Content::Notice(notice) => panic!("{notice:?}"),
    };
    contents(&dir.join(FILE_NAME)).into_iter().map(of).collect()
}

#[test]
fn other_settings_hold_for_the_next_record_and_hashes_stay_over_them() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path()).unwrap();
    let of_jane = || Record { client: Client::at([10, 0, 0, 7], Some("jane".into())), ..minimal() };
    for clients in [KeptClients::Plain, KeptClients::Keyed, KeptClients::None, KeptClients::Keyed] {
        writer.change(Config { clients, ..Config::new(dir.path().into()) }).unwrap();
        block_on(writer.write(of_jane(), Vec::new())).unwrap();
    }
    drop(writer);
    let written = clients(dir.path());
    assert_eq!(written[0], of_jane().client);
    assert_eq!(written[2], Client { address: None, name: None });
    assert_eq!(written[1], written[3]);
    let text = std::fs::read_to_string(dir.path().join(FILE_NAME)).unwrap();
    let lines: Vec<_> = text.lines().collect();
    for line in &lines[1..] {
        assert!(!line.contains("jane") && !line.contains("10.0.0.7"), "{line}");
    }
    assert!(lines[1].contains("\"client\":{\"address\":\"~"), "{}", lines[1]);
    assert!(lines[2].contains("\"client\":{\"address\":null,\"name\":null}"), "{}", lines[2]);
}

#[test]
fn parts_of_paths_are_redacted_in_records_and_in_examples_of_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open_with(dir.path(), |config| {
        config.redact_paths = vec!["/users/*/".parse().unwrap()];
    })
    .unwrap();
    let url_as_received = Some("http://example.com/users/jané/x".into());
    let record = Record { url_as_received, ..naming("http://example.com/users/jan%C3%A9/x?q=1") };
    block_on(writer.write(record, Vec::new())).unwrap();
    let mut changed = notices::changed();
    changed.sampled.examples = vec!["/users/jane/y".into()];
    block_on(writer.note(Notice::Changed(changed.clone()))).unwrap();
    assert!(writer.queue_notice(Notice::Changed(changed)));
    drop(writer);
    let text = std::fs::read_to_string(dir.path().join(FILE_NAME)).unwrap();
    assert!(!text.contains("jan"), "{text}");
    assert_eq!(text.matches("/users/~").count(), 4, "{text}");
    assert!(text.contains("/x?q=1\""), "the rest stays: {text}");
}

//! Query values, which no file of the log has when they are to be redacted.

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
        assert!(writer.shown(&record.url).starts_with("http://example.com/search?q=~"));
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
    assert_eq!(writer.shown(&record.url), record.url);
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

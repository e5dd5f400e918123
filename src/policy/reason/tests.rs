use super::*;

#[test]
fn each_reason_has_its_row_and_its_word() {
    for (place, row) in ROWS.iter().enumerate() {
        assert_eq!(row.reason as usize, place, "{}", row.word);
        assert_eq!(row.reason.row(), row);
        assert_eq!(serde_json::to_value(row.reason).unwrap(), row.word);
    }
    // A variant without a row is named here.
    let expected = serde_json::from_value::<Reason>("".into()).unwrap_err().to_string();
    let last = ROWS[ROWS.len() - 1].word;
    assert!(expected.ends_with(&format!("`{last}`")), "{expected}");
}

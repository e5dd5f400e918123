//! What a client got, as every client here says it: a status line, fields, an empty line, the body,
//! as curl and wget write it by themselves and the programs do after them.

/// One response, as it reached the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// `1.1` or `2`.
    pub version: String,
    pub status: u16,
    /// The id of the audit record.
    pub record: String,
    pub body: String,
}

/// The answers in what a client wrote.
pub fn answers(written: &str) -> Vec<Answer> {
    let written = written.replace('\r', "");
    let mut answers: Vec<Answer> = Vec::new();
    let mut in_head = false;
    for line in written.lines() {
        if let Some(rest) = line.strip_prefix("HTTP/") {
            let mut words = rest.split(' ');
            let version = words.next().unwrap_or_default().trim_end_matches(".0").to_owned();
            let status = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            answers.push(Answer { version, status, ..Answer::default() });
            in_head = true;
        } else if let Some(answer) = answers.last_mut() {
            match line.split_once(": ") {
                Some((name, id)) if in_head && name.eq_ignore_ascii_case("courtesy-record") => {
                    id.clone_into(&mut answer.record);
                }
                _ if in_head => in_head = !line.is_empty(),
                _ => answer.body = format!("{}{line}\n", answer.body),
            }
        }
    }
    answers
}

//! The head of an answer as it stands in an archive: true of the bytes that follow it there.

use super::capture::Answer;

/// Headers for the length and coding of a body: true on the wire, and not of the stored file.
const OF_THE_WIRE: [&str; 3] = ["content-encoding", "content-length", "transfer-encoding"];

/// The head before a body of `length` bytes that is in no coding, with the empty line.
pub fn http_head(answer: &Answer, length: usize) -> Vec<u8> {
    let mut lines = answer.head.split_terminator("\r\n");
    let mut head = bytes(&status_line(lines.next().unwrap_or_default(), answer.status));
    for line in lines {
        let name = line.split(':').next().unwrap_or_default();
        if OF_THE_WIRE.iter().any(|field| name.eq_ignore_ascii_case(field)) {
            head.extend_from_slice(b"\r\nX-Archive-Orig-");
        } else {
            head.extend_from_slice(b"\r\n");
        }
        head.extend(bytes(line));
    }
    head.extend(format!("\r\nContent-Length: {length}\r\n\r\n").bytes());
    head
}

/// RFC 9112 §4: the space before the reason phrase stands even where there is none.
fn status_line(line: &str, status: u16) -> String {
    if line.starts_with("HTTP/1.") { line.to_owned() } else { format!("HTTP/1.1 {status:03} ") }
}

/// ISO 8859-1, as a head was written down.
pub fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(character).unwrap_or(b'?')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(head: &str, length: usize) -> String {
        let answer = Answer {
            head: head.to_owned(),
            head_cut: false,
            peer: None,
            request: None,
            status: 200,
            url: String::new(),
            via: None,
        };
        http_head(&answer, length).into_iter().map(char::from).collect()
    }

    #[test]
    fn what_was_true_on_the_wire_only_stands_under_another_name() {
        let received = "HTTP/1.1 200 Fine\r\ncontent-encoding: gzip\r\nX-N: \u{e9}\r\nTransfer-Encoding: chunked\r\n";
        let kept = "HTTP/1.1 200 Fine\r\nX-Archive-Orig-content-encoding: gzip\r\nX-N: \u{e9}\r\n\
                    X-Archive-Orig-Transfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\n";
        assert_eq!(head(received, 7), kept);
    }

    #[test]
    fn http_2_is_written_as_the_format_knows_it() {
        for received in ["HTTP/2 200\r\n", ""] {
            assert_eq!(head(received, 0), "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n");
        }
    }
}

//! A resolver for which every name exists, on loopback.

use std::net::{Ipv4Addr, UdpSocket};

const TYPE_A: u16 = 1;

pub fn serve(listen: &str) -> Result<(), String> {
    let socket = UdpSocket::bind(listen).map_err(|error| format!("{listen}: {error}"))?;
    let mut buffer = [0; 1500];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).map_err(|error| error.to_string())?;
        if let Some(answer) = answer(&buffer[..length]) {
            // Who does not hear it asks again.
            let _ = socket.send_to(&answer, from);
        }
    }
}

/// The answer to a query with one question (RFC 1035 §4.1): one address, or none for another type.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let is_query = query.get(2)? & 0x80 == 0;
    if !is_query || query.get(4..6)? != [0, 1] {
        return None;
    }
    let (name, end) = name(query)?;
    let question = query.get(12..end + 4)?;
    let wants_address = question[question.len() - 4..question.len() - 2] == TYPE_A.to_be_bytes();
    let mut answer = Vec::with_capacity(question.len() + 28);
    answer.extend_from_slice(&query[..2]);
    // A response, recursion available; it was desired if the query says so.
    answer.extend_from_slice(&[0x81 | (query[2] & 1), 0x80, 0, 1, 0, u8::from(wants_address), 0, 0, 0, 0]);
    answer.extend_from_slice(question);
    if wants_address {
        // The name by a pointer to the question; class IN, an hour, four bytes.
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4]);
        answer.extend_from_slice(&address(&name).octets());
    }
    Some(answer)
}

/// The name in a question, and where it ends.
fn name(query: &[u8]) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut at = 12;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            return Some((name, at));
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(std::str::from_utf8(query.get(at..at + length)?).ok()?);
        at += length;
    }
}

/// h0 is 127.1.1.1, h1 is 127.1.1.2, h250 is 127.1.2.1: no byte is 0 or 255.
fn address(name: &str) -> Ipv4Addr {
    let label = name.split('.').next().unwrap_or_default();
    let number: Option<u32> = label.strip_prefix(['h', 'H']).and_then(|number| number.parse().ok());
    let Some(number) = number else { return Ipv4Addr::LOCALHOST };
    let byte = |number: u32| u8::try_from(number % 250 + 1).expect("at most 250");
    Ipv4Addr::new(127, 1, byte(number / 250), byte(number))
}

#[cfg(test)]
mod tests {
    fn query(labels: &[&str], kind: u8) -> Vec<u8> {
        let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend_from_slice(label.as_bytes());
        }
        query.extend_from_slice(&[0, 0, kind, 0, 1]);
        query
    }

    #[test]
    fn every_name_has_one_address() {
        let answer = |labels| super::answer(&query(labels, 1)).unwrap();
        assert_eq!(answer(&["h3", "bench", "test"])[..2], [0x12, 0x34]);
        assert!(answer(&["h3", "bench", "test"]).ends_with(&[127, 1, 1, 4]));
        assert!(answer(&["h251", "bench", "test"]).ends_with(&[127, 1, 2, 2]));
        assert!(answer(&["denied", "bench", "test"]).ends_with(&[127, 0, 0, 1]));
    }

    #[test]
    fn another_type_has_no_answer_and_what_is_no_query_none_at_all() {
        let answer = super::answer(&query(&["h3", "bench", "test"], 28)).unwrap();
        assert_eq!(answer[7], 0);
        assert!(super::answer(&[0; 5]).is_none());
        assert!(super::answer(&[0; 40]).is_none());
    }
}

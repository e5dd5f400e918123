//! Bytes in JSON: as text, as base64 if they are not text, or as parts with repetitions.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cli::limits::BATCH_BYTES_MAX;

/// One of three ways to write the same bytes.
pub struct JsonBytes<'a> {
    /// The name of the member, for errors.
    pub name: &'static str,
    pub text: Option<&'a str>,
    pub base64: Option<&'a str>,
    pub parts: Option<&'a [(Cow<'a, str>, u64)]>,
}

impl<'a> JsonBytes<'a> {
    /// `None`: none of them is given.
    pub fn read(&self) -> Result<Option<Cow<'a, [u8]>>, String> {
        let name = self.name;
        match (self.text, self.base64, self.parts) {
            (None, None, None) => Ok(None),
            (Some(text), None, None) => Ok(Some(Cow::Borrowed(text.as_bytes()))),
            (None, Some(base64), None) => match STANDARD.decode(base64) {
                Ok(bytes) => Ok(Some(Cow::Owned(bytes))),
                Err(error) => Err(format!("{name}_b64 is not base64: {error}")),
            },
            (None, None, Some(parts)) => self.expand(parts).map(|bytes| Some(Cow::Owned(bytes))),
            _ => Err(format!("more than one of {name}, {name}_b64 and {name}_parts is given")),
        }
    }

    /// Checks the length before expanding: a short line can specify any length.
    fn expand(&self, parts: &[(Cow<'_, str>, u64)]) -> Result<Vec<u8>, String> {
        let length = parts.iter().fold(0u64, |sum, (text, times)| {
            sum.saturating_add((text.len() as u64).saturating_mul(*times))
        });
        if length > BATCH_BYTES_MAX {
            return Err(format!(
                "{}_parts is {length} bytes long when written out; at most {BATCH_BYTES_MAX} are read",
                self.name
            ));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        for (text, times) in parts.iter().filter(|(text, _)| !text.is_empty()) {
            (0..*times).for_each(|_| bytes.extend_from_slice(text.as_bytes()));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(parts: &[(Cow<'static, str>, u64)]) -> Result<Option<Vec<u8>>, String> {
        let bytes = JsonBytes { name: "robots", text: None, base64: None, parts: Some(parts) };
        bytes.read().map(|read| read.map(Cow::into_owned))
    }

    #[test]
    fn parts_are_repeated_in_order() {
        let read = parts(&[("a".into(), 2), ("".into(), u64::MAX), ("b".into(), 1)]);
        assert_eq!(read, Ok(Some(b"aab".to_vec())));
    }

    #[test]
    fn what_would_not_fit_is_refused_before_it_is_written_out() {
        let message = parts(&[("ab".into(), u64::MAX), ("c".into(), 1)]).unwrap_err();
        assert!(message.contains("at most 67108864"), "{message}");
    }
}

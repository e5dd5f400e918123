//! Bytes as a store of choices: what a property needs of them is taken off the front.

/// What is left. When nothing is, numbers are zero and texts empty.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub fn number(&mut self) -> u64 {
        u64::from_be_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// As many bytes as the next one says.
    pub fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    pub fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    pub fn some<T>(&mut self, take: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| take(self))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

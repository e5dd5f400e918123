//! The lines that go into the file with one write, and who waits for them.

use super::exhibits::ExhibitName;
use super::line::{Content, Head};
use super::notice::Notice;
use super::record::Record;
use super::start::First;
use super::writer::{Done, WriteError, Written};
use crate::moment::Moment;

#[derive(Debug)]
pub(super) struct Page {
    /// Where the chain stands after these lines.
    pub head: Head,
    pub lines: Vec<u8>,
    pub first: Option<First>,
    /// When the last of them was written.
    pub last: Option<Moment>,
    /// The first record's.
    pub id: Option<String>,
    pub records: u64,
    /// The evidence that the records name.
    pub names: Vec<ExhibitName>,
    answers: Vec<(Done, Written)>,
}

impl Page {
    pub fn after(head: &Head) -> Self {
        Self {
            head: head.clone(),
            lines: Vec::new(),
            first: None,
            last: None,
            id: None,
            records: 0,
            names: Vec::new(),
            answers: Vec::new(),
        }
    }

    pub fn record(&mut self, record: Box<Record>, done: Done) {
        self.records += 1;
        self.id.get_or_insert_with(|| record.id.clone());
        self.names.extend(record.exhibits());
        self.push(Content::Record(record));
        self.answers.push((done, Written { seq: self.head.seq }));
    }

    pub fn notice(&mut self, notice: Notice, done: Option<Done>) {
        self.push(Content::Notice(notice));
        self.answers.extend(done.map(|done| (done, Written { seq: self.head.seq })));
    }

    fn push(&mut self, content: Content) {
        let time = content.time();
        self.head.push(content, &mut self.lines);
        self.first.get_or_insert(First { seq: self.head.seq, time });
        self.last = Some(time);
    }

    /// Tells everybody how it went.
    pub fn answer(self, outcome: &Result<(), WriteError>) {
        for (done, written) in self.answers {
            // Whoever asked may have left; the line stands.
            let _ = done.send(outcome.clone().map(|()| written));
        }
    }
}

//! The lines that go into the file with one write, and their places in the chain.

use super::exhibits::ExhibitName;
use super::line::{Content, Head};
use super::node::Node;
use super::record::Record;
use super::start::First;
use super::writer::Written;
use crate::moment::Moment;

#[derive(Debug)]
pub(super) struct Page {
    /// The proxy that writes them.
    node: Option<Node>,
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
    /// Of each line, in their order.
    pub places: Vec<Written>,
}

impl Page {
    pub fn after(head: &Head, node: Option<Node>) -> Self {
        Self {
            node,
            head: head.clone(),
            lines: Vec::new(),
            first: None,
            last: None,
            id: None,
            records: 0,
            names: Vec::new(),
            places: Vec::new(),
        }
    }

    pub fn record(&mut self, record: Box<Record>) {
        self.records += 1;
        self.id.get_or_insert_with(|| record.id.clone());
        self.names.extend(record.exhibits());
        self.push(Content::Record(record));
    }

    pub fn push(&mut self, mut content: Content) {
        content.set_node(self.node.clone());
        let time = content.time();
        self.head.push(content, &mut self.lines);
        self.first.get_or_insert(First { seq: self.head.seq, time });
        self.last = Some(time);
        self.places.push(Written { seq: self.head.seq });
    }
}

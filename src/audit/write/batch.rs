//! The lines that one write appends, and their places in the chain.

use super::message::Written;
use super::recover::First;
use crate::audit::evidence::BlobName;
use crate::audit::record::chain::{Content, Head};
use crate::audit::record::denial_record::Record;
use crate::audit::record::meta_record::{Notice, Recorded};
use crate::audit::record::node::Node;
use crate::types::LogId;
use crate::types::timestamp::Timestamp;

#[derive(Debug)]
pub(super) struct Batch {
    /// The name of this proxy.
    node: Option<Node>,
    log: LogId,
    /// Where the chain stands after these lines.
    pub head: Head,
    pub lines: Vec<u8>,
    pub first: Option<First>,
    /// When the last of them was written.
    pub last: Option<Timestamp>,
    /// The first record's.
    pub id: Option<String>,
    /// Records among the lines.
    pub records: u64,
    /// Records since the last `totals`, these lines included.
    pub recorded: Recorded,
    /// The evidence that they name.
    pub names: Vec<BlobName>,
    /// Of each line, in their order.
    pub places: Vec<Written>,
}

impl Batch {
    /// `recorded`: the records since the last `totals` before them.
    pub fn after(head: &Head, recorded: Recorded, node: Option<Node>, log: LogId) -> Self {
        Self {
            node,
            log,
            head: head.clone(),
            lines: Vec::new(),
            first: None,
            last: None,
            id: None,
            records: 0,
            recorded,
            names: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Adds a record.
    pub fn record(&mut self, record: Box<Record>) {
        self.records += 1;
        self.recorded.add(record.event);
        self.id.get_or_insert_with(|| record.id.clone());
        self.push(Content::Record(record));
    }

    /// Adds a line.
    pub fn push(&mut self, mut content: Content) {
        content.set_node(self.node.clone());
        content.set_log(self.log);
        if let Content::Notice(Notice::Totals(totals)) = &mut content {
            totals.recorded = Some(std::mem::take(&mut self.recorded));
        }
        self.names.extend(content.blobs());
        let time = content.time();
        self.head.push(content, &mut self.lines);
        self.first.get_or_insert(First { seq: self.head.seq, time });
        self.last = Some(time);
        self.places.push(Written { seq: self.head.seq });
    }
}

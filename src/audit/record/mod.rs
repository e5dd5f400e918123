//! What the log says: the records of decisions, the notices of the log about itself, and the hash chain
//! that binds their lines.

pub mod chain;
pub mod chain_head;
pub mod change_record;
pub mod denial_record;
pub mod event;
pub mod evidence_refs;
pub mod line_kind;
pub mod meta_event;
pub mod meta_record;
pub mod node;
pub mod paced_record;
pub mod redact;
pub mod robots_record;
pub mod settings_record;
pub mod shared_robots;
pub mod time;

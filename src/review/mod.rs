//! Reading the log of denials: filters, following, verification, deciding again, the report of a
//! period. Works on files alone, beside whoever writes them.

pub mod report;

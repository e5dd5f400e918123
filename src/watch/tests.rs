//! The sample: against a model, its bounds, and who has a place; and how many changes have a notice.

mod budget;
mod sample;

//! The sample: against a model, its bounds, and who has a place.

mod sample;

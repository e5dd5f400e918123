//! Whether lanes slow down with their origin.

use crate::types::words::words;

words! {
    /// Which lanes slow down with the site (`pace.adapt`).
    #[derive(Default)]
    pub enum Adapt {
        /// Those with a delay.
        #[default]
        Paced = "paced",
        All = "all",
        Off = "off",
    }
}

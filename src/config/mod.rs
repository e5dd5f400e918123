//! The settings: their schema, their defaults, and how they are read from a file, the environment
//! and the command line. The only module that knows the file format. Built on the config crate,
//! which merges; this module adds the place of every value and a remedy to every diagnostic.
//!
//! The path of a setting:
//!
//! ```text
//! layers       file, variables, flags → values with their place
//! schema       the file's keys and types, against the defaults
//! load         the layers merged (tree) → Settings; placeholder, where a value is invalid
//!   units        serde: one value ↔ its text, by parse and by the types of values, names, rules
//! validate     what is invalid together
//! build        Settings → the configuration of each module
//! ```

mod build;
mod diagnostics;
mod host_defaults;
mod layers;
pub mod limits;
mod load;
mod locate;
mod rules;
mod schema;
mod settings;
mod show;
#[cfg(test)]
mod tests;
pub mod units;
mod validate;
mod values;

pub use crate::audit::OnFailure;
pub use crate::egress::Roots;
pub use crate::policy::Mode;
pub use crate::policy::profile::ProfileName;
pub use crate::proxy::{HttpsMode, MixedHosts};
pub use diagnostics::{Diagnostic, InvalidSettings};
pub use layers::{Change, Override, SET_FLAG};
pub use load::{LoadReport, Loaded, load, load_and_report, load_text};
pub use locate::{Location, locate};
pub use rules::{AgentRule, Exemption, OriginRule};
pub use settings::{
    Admin, Agents, Audit, Clients, Deny, Egress, Engine, Https, Limits, Listen, Log, Pace, Robots,
    Settings, Tls,
};
pub use show::Effective;
pub use values::{
    AdminAddress, BrowserOrigin, ConsoleAccess, ContactUrl, FetchAs, LogFormat, LogLevel,
    parse_admin, parse_proxy, parse_servers,
};

/// The commented file: every setting with its default and a sentence.
pub const DEFAULT_FILE: &str = include_str!("../../config/courtesy.toml");

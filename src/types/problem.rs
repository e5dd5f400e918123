//! The problem types (RFC 9457) by URI and by name; `problem_texts` lists them with their texts.

#[cfg(test)]
mod tests;

pub use super::problem_texts::{Problem, ProblemType};

/// The name under which the proxy answers for itself. `.internal` is reserved for private use, so
/// no origin is ever shadowed.
pub const OWN_NAME: &str = "courtesy.internal";

impl Problem {
    /// The `type` of the problem (RFC 9457 §3.1.1); through the proxy, the page can be fetched.
    pub fn uri(self) -> String {
        format!("http://{OWN_NAME}/problems/{}", self.row().name)
    }

    /// The problem with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|problem| problem.row().name == name)
    }
}

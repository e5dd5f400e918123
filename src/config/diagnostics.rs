//! Problems of a configuration, with their place and a remedy.

use std::fmt;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The setting, dotted: `robots.profile`. Empty for the whole file.
    pub key: String,
    /// The source of the value: `courtesy.toml:12`, a variable, a flag.
    pub place: Option<String>,
    pub problem: String,
    /// A remedy, if there is an obvious one.
    pub hint: Option<String>,
    /// The file may not be read.
    pub is_denied: bool,
}

/// All problems; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InvalidSettings(pub Vec<Diagnostic>);

impl Diagnostic {
    /// A problem of the setting `key`, at `place` in its source.
    pub fn new(key: impl Into<String>, place: Option<&str>, problem: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            place: place.map(Into::into),
            problem: problem.into(),
            hint: None,
            is_denied: false,
        }
    }

    /// The same with a hint at the remedy.
    pub fn with_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.problem)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration cannot be used")?;
        for diagnostic in &self.0 {
            write!(f, "\n  {diagnostic}")?;
        }
        Ok(())
    }
}

/// Takes the key of a setting, its problem, and a hint.
pub(super) type ReportFn<'a> = &'a mut dyn FnMut(&str, String, Option<String>);

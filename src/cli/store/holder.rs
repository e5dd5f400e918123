//! The owner of the store: the running proxy or, without one, the file opened by this process.

use std::path::PathBuf;

use serde::de::DeserializeOwned;

use crate::admin::control::{ControlError, End, Question, Tell, answer_question, ask_control};
use crate::cli::exit::{Exit, Failure};
use crate::cli::flags::StateFlags;
use crate::store::disk::{FILE_NAME, Offline, OpenError};

/// The proxy that uses the store or, without one, the file of the store itself.
pub struct Holder {
    state_dir: PathBuf,
}

impl Holder {
    /// The holder of the store in the configured state directory.
    pub fn of(config: &StateFlags) -> Result<Self, Failure> {
        Ok(Self { state_dir: config.load()?.settings.state_dir })
    }

    /// Passes on each item of the response.
    pub fn ask(&self, question: &Question, tell: Tell<'_>) -> Result<End, ControlError> {
        match ask_control(&self.state_dir, question, tell)? {
            Some(end) => Ok(end),
            None => match self.open() {
                Ok(file) => answer_question(question, &file, tell),
                Err(OpenError::Locked(path)) => Err(ControlError::Silent(path)),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// The only item of the response, if there is one.
    pub fn one<T: DeserializeOwned>(&self, question: &Question) -> Result<Option<T>, ControlError> {
        let mut items = Vec::new();
        self.ask(question, &mut |item| {
            items.push(item);
            Ok(())
        })?;
        Ok(items.pop().map(serde_json::from_value).transpose()?)
    }

    /// Bytes of the file before and after.
    pub fn compact(&self) -> Result<(u64, u64), Failure> {
        let mut file = self.open().map_err(|error| match error {
            OpenError::Locked(path) => Failure {
                exit: Exit::Unavailable,
                error: anyhow::anyhow!(
                    "a running proxy uses {}: stop it first. It compacts the file itself when it starts, if \
                     that is worth it",
                    path.display()
                ),
            },
            error => error.into(),
        })?;
        Ok(file.compact()?)
    }

    fn open(&self) -> Result<Offline, OpenError> {
        Offline::open(&self.state_dir.join(FILE_NAME))
    }
}

//! The form of a request's target as it came, which hyper's request does not show.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::runtime::lock::Lock;

/// The form of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// As hyper's request has it.
    Plain,
    /// The target has neither path nor query.
    Pathless,
    /// Path and query as they came: they had to be percent-encoded.
    Encoded(Box<str>),
}

/// The form of the target of the request that comes next on a connection. Most are plain, for which
/// no lock is taken.
#[derive(Debug, Default)]
pub struct NextTargetForm {
    /// [`PLAIN`], [`PATHLESS`] or [`ENCODED`].
    variant: AtomicU8,
    /// Path and query of an encoded one.
    encoded: Lock<Option<Box<str>>>,
}

const PLAIN: u8 = 0;
const PATHLESS: u8 = 1;
const ENCODED: u8 = 2;

impl NextTargetForm {
    /// Notes the form of the target of the request that comes next.
    pub fn set(&self, form: TargetForm) {
        let variant = match form {
            TargetForm::Plain => PLAIN,
            TargetForm::Pathless => PATHLESS,
            TargetForm::Encoded(target) => {
                *self.encoded.lock() = Some(target);
                ENCODED
            }
        };
        self.variant.store(variant, Ordering::Release);
    }

    /// Takes the form of the target of the request that has come; plain from then on.
    pub fn take(&self) -> TargetForm {
        let variant = self.variant.load(Ordering::Acquire);
        if variant == PLAIN {
            return TargetForm::Plain;
        }
        self.variant.store(PLAIN, Ordering::Release);
        match variant {
            PATHLESS => TargetForm::Pathless,
            _ => self.encoded.lock().take().map_or(TargetForm::Plain, TargetForm::Encoded),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_target_is_that_of_one_request() {
        let next = NextTargetForm::default();
        for form in [TargetForm::Encoded("/\u{e9}".into()), TargetForm::Pathless] {
            next.set(form.clone());
            assert_eq!(next.take(), form);
            assert_eq!(next.take(), TargetForm::Plain);
        }
    }
}

//! What has to be known of a log beside what was asked for: parts that cannot be read, lines that were changed. A command
//! prints it on standard error; who makes a page of it gathers it for the page.

use std::cell::RefCell;

/// Remarks that are gathered; more add nothing.
const REMARKS_MAX: usize = 20;

thread_local! {
    /// Where what this thread remarks is gathered, if it is.
    static GATHERED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Remarks something.
pub fn remark(text: String) {
    GATHERED.with_borrow_mut(|gathered| match gathered {
        None => eprintln!("{text}"),
        Some(remarks) if remarks.len() < REMARKS_MAX => remarks.push(text),
        Some(_) => {}
    });
}

/// Does something, and returns what it has remarked, which is not printed.
pub fn gathering<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    GATHERED.set(Some(Vec::new()));
    let done = work();
    (done, GATHERED.take().unwrap_or_default())
}

/// Whether what is remarked is printed, as progress is.
pub fn are_printed() -> bool {
    GATHERED.with_borrow(Option::is_none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remarked_is_gathered_up_to_a_bound() {
        let work = || {
            assert!(!are_printed());
            (0..REMARKS_MAX + 5).for_each(|number| remark(number.to_string()));
            "done"
        };
        let (done, remarks) = gathering(work);
        assert_eq!((done, remarks.len(), remarks[0].as_str()), ("done", REMARKS_MAX, "0"));
        assert!(are_printed());
    }
}

use super::*;

#[test]
fn every_cause_has_a_word_and_a_sentence() {
    let failed = |detail: &str| Cause::failed(NetworkFailure::Timeout, detail);
    for (cause, word, sentence) in [
        (
            Cause::Status { code: 503, retry_after: None },
            "status",
            "the server answered 503 Service Unavailable",
        ),
        (Cause::Status { code: 799, retry_after: None }, "status", "the server answered 799"),
        (
            Cause::TooManyRedirects { limit: 5 },
            "too_many_redirects",
            "there were more than 5 redirects",
        ),
        (Cause::RedirectLoop, "redirect_loop", "the redirects go round in a circle"),
        (
            Cause::RedirectWithoutLocation { code: 302 },
            "redirect_without_location",
            "the server answered 302 Found without saying where to",
        ),
        (failed(""), "timeout", "the file did not come in time"),
        (failed("10 s"), "timeout", "the file did not come in time: 10 s"),
    ] {
        assert_eq!((cause.word(), cause.to_string().as_str()), (word, sentence));
    }
}

use super::*;

#[test]
fn a_request_goes_from_idle_through_handling_and_responding() {
    let state = ConnectionState::default();
    for count in 1..3 {
        assert_eq!((state.phase(), state.requests()), (RequestPhase::Idle, count - 1));
        state.begin_request();
        assert_eq!((state.phase(), state.requests()), (RequestPhase::Handling, count));
        state.start_response();
        assert_eq!(state.phase(), RequestPhase::Responding);
        state.end_request();
    }
    assert!(state.is_idle() && !state.is_upgraded());
}

#[test]
fn an_upgrade_is_final() {
    let state = ConnectionState::default();
    state.begin_request();
    state.upgrade(async {});
    state.start_response();
    assert_eq!(state.phase(), RequestPhase::Upgraded);
    state.end_request();
    assert!(state.is_idle() && state.is_upgraded());
    assert!(state.take_after_upgrade().is_some() && state.take_after_upgrade().is_none());
}

#[test]
fn input_ends_or_is_refused_and_never_both() {
    let (ended, refused) = (ConnectionState::default(), ConnectionState::default());
    ended.end_input();
    refused.reject_input(Rejection::bad_request("x"));
    assert!(ended.has_ended_input() && !ended.has_refused_input());
    assert!(refused.has_refused_input() && !refused.has_ended_input());
    assert!(ended.take_rejection().is_none() && refused.take_rejection().is_some());
}

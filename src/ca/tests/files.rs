//! The files of the proxy's own CA: generated once, kept by restarts, replaced by rotations only,
//! never half-written.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn mode(file: &std::path::Path) -> u32 {
    std::fs::metadata(file).unwrap().permissions().mode() & 0o777
}

fn bytes(place: &Place) -> [Vec<u8>; 2] {
    ["ca.pem", "ca.key"].map(|name| std::fs::read(place.file(name)).unwrap())
}

#[test]
fn a_restart_keeps_every_byte() {
    let place = Place::new();
    let first = place.open().unwrap();
    let before = bytes(&place);
    place.clock.advance(700 * DAY);
    assert_eq!(place.open().unwrap().certificate(), first.certificate());
    assert_eq!(bytes(&place), before);
}

#[test]
fn only_the_owner_can_come_near_the_key() {
    let place = Place::new();
    place.open().unwrap();
    assert_eq!(mode(&place.file("")), 0o700);
    assert_eq!(mode(&place.file("ca.key")), 0o600);
    let key = std::fs::read_to_string(place.file("ca.key")).unwrap();
    assert!(key.starts_with("-----BEGIN PRIVATE KEY-----\n"), "PKCS #8");
    assert!(!std::fs::read_to_string(place.file("ca.pem")).unwrap().contains("KEY"));
}

#[test]
fn those_who_start_at_once_make_one_ca() {
    let place = Place::new();
    let open = || place.open().unwrap().certificate().fingerprint();
    let found: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(found.iter().all(|fingerprint| *fingerprint == found[0]));
}

#[test]
fn half_a_ca_is_never_replaced() {
    for missing in ["ca.pem", "ca.key"] {
        let place = Place::new();
        place.open().unwrap();
        std::fs::remove_file(place.file(missing)).unwrap();
        let said = place.open().unwrap_err().to_string();
        assert!(said.contains(missing), "{said}");
        assert!(!place.file(missing).exists());
    }
}

/// The states that a crash can leave, in the order of the steps.
#[test]
fn what_a_crash_left_half_done_is_taken_away_or_finished() {
    let place = Place::new();
    let old = place.open().unwrap().certificate().clone();
    let other = Place::new();
    let new = other.open().unwrap().certificate().clone();
    let lay =
        |name: &str, as_name: &str| std::fs::copy(other.file(name), place.file(as_name)).unwrap();

    // While the new key is written.
    std::fs::write(place.file("ca.key.new"), "-----BEGIN").unwrap();
    assert_eq!(*place.open().unwrap().certificate(), old);
    // While the new certificate is written.
    lay("ca.key", "ca.key.new");
    std::fs::write(place.file("ca.pem.new"), "-----BEGIN").unwrap();
    assert_eq!(*place.open().unwrap().certificate(), old);
    // Both are written, neither is renamed.
    lay("ca.key", "ca.key.new");
    lay("ca.pem", "ca.pem.new");
    assert_eq!(*place.open().unwrap().certificate(), old);
    // The key is renamed; the rest follows.
    lay("ca.key", "ca.key");
    lay("ca.pem", "ca.pem.new");
    assert_eq!(*place.open().unwrap().certificate(), new);
    for name in ["ca.key.new", "ca.pem.new"] {
        assert!(!place.file(name).exists(), "{name}");
    }
}

#[test]
fn a_link_that_was_laid_in_our_way_is_not_followed() {
    let place = Place::new();
    place.open().unwrap();
    let elsewhere = place.dir.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, place.file("ca.key.new")).unwrap();
    place.rotate();
    assert!(!elsewhere.exists());
}

#[test]
fn former_cas_stay_trusted_until_they_expire_or_the_overlap_is_ended() {
    let place = Place::new();
    let first = place.open().unwrap().certificate().clone();
    place.clock.advance(100 * DAY);
    let second = place.rotate();
    assert_eq!(second.previous(), std::slice::from_ref(&first));
    assert_eq!(second.bundle(), second.certificate().pem() + &first.pem());
    let third = place.rotate();
    assert_eq!(third.previous(), [second.certificate().clone(), first.clone()]);
    place.clock.advance(631 * DAY);
    assert_eq!(place.open().unwrap().previous(), std::slice::from_ref(second.certificate()));

    let alone = Authority::end_overlap(&place.source(), place.now()).unwrap();
    assert_eq!(alone.certificate(), third.certificate());
    assert_eq!(place.open().unwrap().bundle(), third.certificate().pem());
}

#[test]
fn former_cas_are_bounded() {
    let place = Place::new();
    place.open().unwrap();
    let last = (0..6).fold(None, |_, _| Some(place.rotate())).unwrap();
    assert_eq!(last.previous().len(), crate::ca::authority::CA_PREVIOUS_MAX);
}

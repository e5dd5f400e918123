//! The attributes of a CA, and which ones are refused.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use x509_parser::extensions::ParsedExtension;

use super::*;

/// An operator's CA in files, generated from `params`.
fn files(place: &Place, params: &CertificateParams, key: &KeyPair) -> Source {
    written(place, &params.self_signed(key).unwrap().pem(), key)
}

fn written(place: &Place, pem: &str, key: &KeyPair) -> Source {
    let [certificate, key_file] = ["own.pem", "own.key"].map(|name| place.dir.path().join(name));
    std::fs::write(&certificate, pem).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    mode(&key_file, 0o600);
    Source::Files { certificate, key: key_file }
}

fn mode(file: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

#[track_caller]
fn refused(place: &Place, source: &Source, reason: &str) {
    let said = Authority::open(source, place.now()).unwrap_err().to_string();
    assert!(said.contains(reason), "{said}");
}

/// RFC 5280 §4.2.1: the extensions of a conforming CA, and which of them are critical.
#[test]
fn our_ca_says_what_strict_clients_want_to_read() {
    let place = Place::new();
    let ca = place.open().unwrap();
    let x509 = ca.certificate().x509();
    let constraints = x509.basic_constraints().unwrap().unwrap();
    assert!(constraints.critical && constraints.value.ca);
    assert_eq!(constraints.value.path_len_constraint, Some(0));
    let usage = x509.key_usage().unwrap().unwrap();
    assert!(usage.critical && usage.value.key_cert_sign() && usage.value.crl_sign());
    assert_eq!(usage.value.flags.count_ones(), 2);
    let has = |wanted: fn(&ParsedExtension<'_>) -> bool| {
        x509.iter_extensions().filter(|extension| wanted(extension.parsed_extension())).count() == 1
    };
    assert!(has(|it| matches!(it, ParsedExtension::SubjectKeyIdentifier(_))));
    assert!(has(|it| matches!(it, ParsedExtension::AuthorityKeyIdentifier(_))));
    assert!(ca.certificate().subject().starts_with("CN=courtesy CA 2026-11-20 "));
    assert_eq!(ca.certificate().days_left(place.now()), 730);
    assert_eq!(place.now().since(ca.certificate().not_before()), Duration::from_secs(3600));
}

#[test]
fn two_cas_of_one_day_are_told_apart() {
    let [one, other] = [Place::new(), Place::new()].map(|place| place.open().unwrap());
    assert_ne!(one.certificate().subject(), other.certificate().subject());
    assert_ne!(one.certificate().fingerprint(), other.certificate().fingerprint());
}

#[test]
fn what_is_printed_of_a_ca_has_no_key_in_it() {
    let place = Place::new();
    let ca = place.open().unwrap();
    assert!(!ca.bundle().contains("PRIVATE"));
    assert_eq!(
        format!("{ca:?}"),
        format!("Authority {{ subject: {:?}, .. }}", ca.certificate().subject())
    );
}

#[test]
fn an_expired_ca_is_read_says_so_and_can_be_rotated() {
    let place = Place::new();
    let first = place.open().unwrap();
    place.clock.advance(731 * DAY);
    let expired = place.open().unwrap();
    let said = expired.certificate().invalidity(place.now()).unwrap();
    assert!(said.ends_with("expired on 2028-11-19"), "{said}");
    let early = Timestamp::from_millis(expired.certificate().not_before().millis() - 1);
    let said = expired.certificate().invalidity(early).unwrap();
    assert!(said.ends_with("is not valid before 2026-11-19"), "{said}");
    assert_eq!(first.certificate().invalidity(first.certificate().not_after()), None);
    let second = place.rotate();
    assert_ne!(second.certificate(), first.certificate());
    assert!(second.previous().is_empty(), "an expired CA need not be trusted");
}

#[test]
fn the_files_of_two_cas_are_refused() {
    let place = Place::new();
    let other = KeyPair::generate().unwrap();
    let source = written(
        &place,
        &ca_params().self_signed(&KeyPair::generate().unwrap()).unwrap().pem(),
        &other,
    );
    refused(&place, &source, "do not belong together");
}

#[test]
fn a_key_that_others_can_open_is_refused() {
    let place = Place::new();
    place.open().unwrap();
    for others in [0o640, 0o604, 0o660, 0o602] {
        mode(&place.file("ca.key"), others);
        refused(&place, &place.source(), "run: chmod 600 ");
    }
    mode(&place.file("ca.key"), 0o400);
    assert!(place.open().is_ok());
}

/// systemd grants a service access by an ACL; its mask shows in the group bits.
#[test]
fn a_credential_is_guarded_by_its_directory() {
    let place = Place::new();
    let Source::Files { certificate, key } =
        files(&place, &ca_params(), &KeyPair::generate().unwrap())
    else {
        unreachable!()
    };
    mode(&key, 0o440);
    assert!(Authority::open(&Source::Credentials { certificate, key }, place.now()).is_ok());
}

#[test]
fn a_certificate_that_may_not_sign_is_refused() {
    let place = Place::new();
    let key = KeyPair::generate().unwrap();
    let mut params = ca_params();
    params.key_usages = vec![KeyUsagePurpose::CrlSign];
    refused(&place, &files(&place, &params, &key), "keyCertSign is missing");
    params.is_ca = IsCa::ExplicitNoCa;
    refused(&place, &files(&place, &params, &key), "CA:TRUE is missing");
    refused(&place, &written(&place, "", &key), "no certificate in it");
}

#[test]
fn an_operators_ca_is_never_changed() {
    let place = Place::new();
    let source = files(&place, &ca_params(), &KeyPair::generate().unwrap());
    let before = Authority::open(&source, place.now()).unwrap().bundle();
    for change in [Authority::rotate, Authority::end_overlap] {
        let said = change(&source, place.now()).unwrap_err();
        assert!(matches!(said, CaError::NotOurs { .. }), "{said}");
    }
    assert_eq!(Authority::open(&source, place.now()).unwrap().bundle(), before);
}

/// The chain is sent with the leaf; the root is not.
#[tokio::test]
async fn an_operators_ca_may_stand_below_a_root() {
    let place = Place::new();
    let root_key = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let mut root = ca_params();
    root.distinguished_name.push(DnType::OrganizationName, "Example");
    let root_pem = root.self_signed(&root_key).unwrap().pem();
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let mut below = ca_params();
    below.distinguished_name.push(DnType::CommonName, "Crawlers");
    let below_pem = below.signed_by(&key, &Issuer::new(root, &root_key)).unwrap().pem();

    let source = written(&place, &(below_pem + &root_pem), &key);
    let leaves = Leaves::open(source, place.clock.clone(), NonZeroUsize::MIN).unwrap();
    assert!(leaves.authority().previous().is_empty());
    let host = host("example.com");
    let shown = certificates(&leaves, &host).await;
    assert_eq!(shown.len(), 2);
    assert!(place.accepts(&root_pem, &shown, &host));
}

#[test]
fn a_name_that_cannot_be_repeated_is_refused() {
    // DC=example, DC=com: the same attribute type twice, which rcgen would lose.
    let place = Place::new();
    let key = KeyPair::generate().unwrap();
    let mut params = ca_params();
    let component = |name: &'static str| rcgen::DnValue::Ia5String(name.try_into().unwrap());
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 25]), component("aa"));
    params
        .distinguished_name
        .push(DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 26]), component("bb"));
    // Turns the OID of the second type into that of the first; the signature is not checked.
    let mut der = params.self_signed(&key).unwrap().der().to_vec();
    let second = [0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x1a];
    while let Some(at) = der.windows(second.len()).position(|bytes| bytes == second) {
        der[at + second.len() - 1] = 0x19;
    }
    let pem = Certificate::parse(der.into()).unwrap().pem();
    refused(&place, &written(&place, &pem, &key), "cannot be repeated as an issuer");
}

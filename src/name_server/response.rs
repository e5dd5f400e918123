//! The response to one query (RFC 1035): a name that exists has its virtual address and no other
//! record.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::op::{Edns, Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, PTR};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

use super::virtual_addresses::{TTL_SECONDS, VirtualAddresses};
use crate::types::origin::{Host, Origin, Scheme};

/// Whether a name exists, as the proxy's resolver has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    Exists,
    NotFound,
    /// The resolver has failed, or found no address.
    Failed,
}

/// The answer to a question: a code of RFC 1035 §4.1.1, and a record if there is one.
type Answer = (ResponseCode, Option<RData>);

/// The name has no record of this type (RFC 2308 §2.2).
const NO_DATA: Answer = (ResponseCode::NoError, None);

/// The response to the message `query`; `exists` looks a name up. `None`: it is no query.
pub async fn respond<F: Future<Output = Existence>>(
    query: &[u8],
    virtual_addresses: &VirtualAddresses,
    exists: impl FnOnce(String) -> F,
) -> Option<Vec<u8>> {
    let query = Message::from_vec(query).ok()?;
    if query.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut response = Message::response(query.metadata.id, query.metadata.op_code);
    response.metadata.recursion_desired = query.metadata.recursion_desired;
    response.metadata.recursion_available = true;
    if query.edns.is_some() {
        response.set_edns(Edns::new());
    }
    let (code, data) = match &query.queries[..] {
        _ if query.metadata.op_code != OpCode::Query => (ResponseCode::NotImp, None),
        [question] => {
            response.add_query(question.clone());
            let class = question.query_class();
            if class == DNSClass::IN {
                answer(question.name(), question.query_type(), virtual_addresses, exists).await
            } else {
                (ResponseCode::Refused, None)
            }
        }
        _ => (ResponseCode::FormErr, None),
    };
    response.metadata.response_code = code;
    if let (Some(data), [question]) = (data, &query.queries[..]) {
        response.add_answer(Record::from_rdata(question.name().clone(), TTL_SECONDS, data));
    }
    response.to_vec().ok()
}

async fn answer<F: Future<Output = Existence>>(
    name: &Name,
    kind: RecordType,
    virtual_addresses: &VirtualAddresses,
    exists: impl FnOnce(String) -> F,
) -> Answer {
    if kind == RecordType::PTR {
        return answer_reverse(name, virtual_addresses);
    }
    let text = name.to_ascii().trim_end_matches('.').to_ascii_lowercase();
    // RFC 6761 §6.3 and §6.4: these are never looked up.
    let last = text.rsplit('.').next().unwrap_or_default();
    if last == "localhost" {
        return answer_address(kind, (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST));
    }
    // What is no name of an origin can be no origin.
    let origin = Origin::from_authority(Scheme::Http, &text);
    let is_name =
        origin.is_ok_and(|origin| matches!(origin.host(), Host::Name(it) if **it == *text));
    if last == "invalid" || !is_name {
        return (ResponseCode::NXDomain, None);
    }
    match exists(text.clone()).await {
        Existence::Exists => answer_address(kind, virtual_addresses.addresses_of(&text)),
        Existence::NotFound => (ResponseCode::NXDomain, None),
        Existence::Failed => (ResponseCode::ServFail, None),
    }
}

/// The address of the family that is asked for. There is no record of any other type, SVCB and
/// HTTPS included, so that no client encrypts its hello (ECH) or begins with HTTP/3.
fn answer_address(kind: RecordType, (v4, v6): (Ipv4Addr, Ipv6Addr)) -> Answer {
    match kind {
        RecordType::A => (ResponseCode::NoError, Some(RData::A(A(v4)))),
        RecordType::AAAA => (ResponseCode::NoError, Some(RData::AAAA(AAAA(v6)))),
        _ => NO_DATA,
    }
}

/// The name of a virtual address, for a query of its reverse name (RFC 1035 §3.5).
fn answer_reverse(name: &Name, virtual_addresses: &VirtualAddresses) -> Answer {
    let block = name.parse_arpa_name().ok();
    let address = block.filter(|block| block.prefix_len() == block.max_prefix_len());
    let found = match address.map(|block| block.addr()) {
        Some(IpAddr::V4(address)) if address.is_loopback() => Some("localhost".into()),
        Some(IpAddr::V6(Ipv6Addr::LOCALHOST)) => Some("localhost".into()),
        Some(address) => virtual_addresses.name_of(address),
        None => None,
    };
    match found.and_then(|name| Name::from_ascii(format!("{name}.")).ok()) {
        Some(name) => (ResponseCode::NoError, Some(RData::PTR(PTR(name)))),
        None => (ResponseCode::NXDomain, None),
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::Query;

    use super::*;

    async fn ask(virtual_addresses: &VirtualAddresses, name: &str, kind: RecordType) -> String {
        let mut query = Message::query();
        query.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        let exists = |name: String| async move {
            match name.as_str() {
                name if name.ends_with(".example") => Existence::Exists,
                "broken.test" => Existence::Failed,
                _ => Existence::NotFound,
            }
        };
        let response = respond(&query.to_vec().unwrap(), virtual_addresses, exists).await.unwrap();
        let response = Message::from_vec(&response).unwrap();
        assert_eq!(response.metadata.id, query.metadata.id);
        let data: Vec<_> = response.answers.iter().map(|it| it.data.to_string()).collect();
        format!("{:?} {}", response.metadata.response_code, data.join(" "))
    }

    #[tokio::test]
    async fn a_name_that_exists_has_a_virtual_address_and_no_other_record() {
        let virtual_addresses = VirtualAddresses::default();
        for (name, kind, expected) in [
            ("A.Example.", RecordType::A, "NoError 198.18.0.0"),
            ("a.example.", RecordType::AAAA, "NoError fd00:c0::"),
            ("b.example.", RecordType::A, "NoError 198.18.0.1"),
            ("a.example.", RecordType::HTTPS, "NoError "),
            ("a.example.", RecordType::SVCB, "NoError "),
            ("a.example.", RecordType::MX, "NoError "),
            ("none.test.", RecordType::A, "NXDomain "),
            ("none.test.", RecordType::TXT, "NXDomain "),
            ("broken.test.", RecordType::A, "ServFail "),
            ("localhost.", RecordType::A, "NoError 127.0.0.1"),
            ("www.localhost.", RecordType::AAAA, "NoError ::1"),
            ("a.example.invalid.", RecordType::A, "NXDomain "),
            ("1.2.3.4.", RecordType::A, "NXDomain "),
            ("1.0.18.198.in-addr.arpa.", RecordType::PTR, "NoError b.example."),
            ("1.0.0.127.in-addr.arpa.", RecordType::PTR, "NoError localhost."),
            ("9.9.18.198.in-addr.arpa.", RecordType::PTR, "NXDomain "),
            ("18.198.in-addr.arpa.", RecordType::PTR, "NXDomain "),
        ] {
            assert_eq!(ask(&virtual_addresses, name, kind).await, expected, "{name} {kind}");
        }
    }

    #[tokio::test]
    async fn what_is_no_single_question_is_refused_or_not_answered() {
        let virtual_addresses = VirtualAddresses::default();
        let exists = |_| async { Existence::Exists };
        assert_eq!(respond(b"\0\x01", &virtual_addresses, exists).await, None);
        let response = Message::response(7, OpCode::Query).to_vec().unwrap();
        assert_eq!(respond(&response, &virtual_addresses, exists).await, None);
        let code = |message: Message| async move {
            let bytes =
                respond(&message.to_vec().unwrap(), &VirtualAddresses::default(), exists).await;
            Message::from_vec(&bytes.unwrap()).unwrap().metadata.response_code
        };
        assert_eq!(code(Message::query()).await, ResponseCode::FormErr);
        let update = Message::new(1, MessageType::Query, OpCode::Update);
        assert_eq!(code(update).await, ResponseCode::NotImp);
    }
}

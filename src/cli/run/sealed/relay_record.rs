//! The record of a relayed connection: event `tunnelled`, reason `reach`.

use std::net::{IpAddr, Ipv4Addr};

use super::super::super::ephemeral_proxy::Recorder;
use crate::audit::{self, AgentSource, Event, Profile, Reason, Record};
use crate::policy::profile::ProfileName;
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::timestamp::Timestamp;

/// Writes the records of relayed connections.
#[derive(Clone, Debug)]
pub struct RelayRecords {
    recorder: Recorder,
    profile: ProfileName,
}

impl RelayRecords {
    /// With the profile of the settings, which every record names.
    pub const fn new(recorder: Recorder, profile: ProfileName) -> Self {
        Self { recorder, profile }
    }

    /// Records a connection to `service`; whether it may go on.
    pub async fn record(&self, service: &Service<'_>, client: IpAddr) -> bool {
        let now = SystemClock.wall();
        self.recorder.record(record(service, client, self.profile, now)).await
    }
}

/// A service, as records name it.
#[derive(Clone, Copy, Debug)]
pub enum Service<'a> {
    /// Host and port.
    Tcp(&'a str, u16),
    /// The path of a Unix socket.
    Unix(&'a str),
}

/// The address of the client where the connection has none.
pub const NO_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn record(service: &Service<'_>, client: IpAddr, profile: ProfileName, now: Timestamp) -> Record {
    let (origin, url) = match service {
        // As in the target of a CONNECT.
        Service::Tcp(host, port) => (format!("tcp://{host}:{port}"), format!("{host}:{port}")),
        Service::Unix(path) => (format!("unix:{path}"), format!("unix:{path}")),
    };
    Record {
        agent: None,
        agent_source: AgentSource::Absent,
        client: audit::Client { address: client.to_canonical(), name: None },
        event: Event::Tunnelled,
        exemption: None,
        group: None,
        id: audit::new_id(now),
        method: "CONNECT".into(),
        node: None,
        origin: Record::url(origin.as_bytes()),
        pace_seen: None,
        path_seen: false,
        prev: String::new(),
        profile: Profile::of(&profile.row()),
        reason: Reason::Reach,
        robots: None,
        rule: None,
        seq: 0,
        sni: None,
        time: now,
        trace_id: None,
        url: Record::url(url.as_bytes()),
        url_as_received: None,
        user_agent: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_the_service_and_no_agent() {
        let now = Timestamp::from_millis(0);
        for (service, origin, url) in [
            (Service::Tcp("db.example", 5432), "tcp://db.example:5432", "db.example:5432"),
            (Service::Tcp("[::1]", 80), "tcp://[::1]:80", "[::1]:80"),
            (Service::Unix("/run/a b.sock"), "unix:/run/a%20b.sock", "unix:/run/a%20b.sock"),
        ] {
            let made = record(&service, NO_ADDRESS, ProfileName::Rfc9309, now);
            assert_eq!((made.origin.as_str(), made.url.as_str()), (origin, url));
            assert_eq!((made.event, made.reason), (Event::Tunnelled, Reason::Reach));
            assert!(made.agent.is_none() && !made.path_seen);
        }
    }
}

//! The ports that a sealed run opens: connections to them are served by the proxy.

use super::super::super::exit::{Exit, Failure, OrExit};
use super::reach::Service;

/// Ports whose connections are served: those of HTTP and HTTPS, and their usual alternatives.
pub const SERVED_PORTS: [u16; 4] = [80, 443, 8080, 8443];

/// Ports that are served, at most: each takes two descriptors of the one message.
const PORTS_MAX: usize = 100;

/// The served ports, in the order of their numbers: [`SERVED_PORTS`] and the `named` ones, without
/// those of which the negative is named. None may be a port of the `services` outside.
pub fn served_ports(named: &[i32], services: &[Service]) -> Result<Vec<u16>, Failure> {
    let mut served: Vec<_> = SERVED_PORTS.to_vec();
    for named in named {
        let port = u16::try_from(named.unsigned_abs()).ok().filter(|port| *port > 0);
        let port = port
            .ok_or_else(|| anyhow::anyhow!("--ports: {named} is no port"))
            .or_exit(Exit::Usage)?;
        served.retain(|it| *it != port);
        served.extend((*named > 0).then_some(port));
    }
    served.sort_unstable();
    let reached = services.iter().find(|service| served.contains(&service.port));
    let message = match reached {
        Some(Service { host, port }) => Some(format!(
            "--reach {host}:{port}: that port is served by the proxy; leave it out with --ports -{port}"
        )),
        None if served.len() + services.len() > PORTS_MAX => {
            Some(format!("--ports and --reach: more than {PORTS_MAX} ports"))
        }
        None => None,
    };
    message.map_or(Ok(served), |it| Err(anyhow::anyhow!(it)).or_exit(Exit::Usage))
}

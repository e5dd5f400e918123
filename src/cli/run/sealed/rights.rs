//! Rights over the namespaces: kept by one process that is started, and given up before the command.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

/// What the first process of the namespace of processes needs: mounts, the network, and to give up
/// the rest.
const NEEDED: [CapabilitySet; 5] = [
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::NET_ADMIN,
    CapabilitySet::NET_RAW,
    CapabilitySet::NET_BIND_SERVICE,
    CapabilitySet::SETPCAP,
];

/// Lets a program that this process executes have the rights over the namespaces: an ordinary user
/// would lose them (capabilities(7), ambient).
pub fn keep_over_exec() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable = NEEDED.into_iter().collect();
    set_capabilities(None, sets)?;
    for capability in NEEDED {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Gives up all rights over the namespaces, so that neither this process nor what it starts can
/// change them.
pub fn give_up() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        // EINVAL: an older kernel does not know it.
        match remove_capability_from_bounding_set(capability) {
            Err(error) if error != rustix::io::Errno::INVAL => return Err(error.into()),
            _ => {}
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    set_no_new_privs(true)?;
    Ok(())
}

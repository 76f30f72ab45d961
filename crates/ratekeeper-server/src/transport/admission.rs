//! Who may come in, and how many at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ipnet::IpNet;
use parking_lot::Mutex;

/// The bounds of one door, over all workers.
#[derive(Debug)]
pub(crate) struct Admission {
    allow: Vec<IpNet>,
    connections_max: usize,
    per_source_max: usize,
    open: AtomicUsize,
    sources: Mutex<HashMap<IpAddr, usize>>,
}

/// A place at a door. Giving it back is dropping it.
#[derive(Debug)]
pub(crate) struct Admitted {
    admission: Arc<Admission>,
    source: IpAddr,
}

impl Admission {
    pub(crate) fn new(allow: &[IpNet], connections_max: usize, per_source_max: usize) -> Self {
        Self {
            allow: allow.to_vec(),
            connections_max,
            per_source_max,
            open: AtomicUsize::new(0),
            sources: Mutex::default(),
        }
    }

    /// A place for a connection from `source`, if there is one.
    pub(crate) fn admit(self: &Arc<Self>, source: IpAddr) -> Option<Admitted> {
        let source = source.to_canonical();
        if !is_allowed(&self.allow, source) {
            return None;
        }
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.connections_max {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        // From here on dropping it gives the place back.
        let admitted = Admitted { admission: Arc::clone(self), source };
        let mut sources = self.sources.lock();
        let count = sources.entry(source).or_default();
        *count += 1;
        let is_within = *count <= self.per_source_max;
        drop(sources);
        is_within.then_some(admitted)
    }
}

impl Admitted {
    pub(super) fn source(&self) -> IpAddr {
        self.source
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.open.fetch_sub(1, Ordering::Relaxed);
        let mut sources = self.admission.sources.lock();
        if let Some(count) = sources.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                sources.remove(&self.source);
            }
        }
    }
}

/// Whether `source`, an IPv4 address if it is one, is in one of the networks; if there are none,
/// everybody is.
pub(super) fn is_allowed(networks: &[IpNet], source: IpAddr) -> bool {
    networks.is_empty() || networks.iter().any(|network| network.contains(&source))
}

#[cfg(test)]
mod tests;

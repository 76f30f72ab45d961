//! A cluster: three primaries, each with a replica.

use super::{Single, text, until};

pub(crate) struct Cluster {
    /// The primaries come first, each with its third of the slots in order.
    pub(crate) servers: Vec<Single>,
}

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

impl Cluster {
    pub(crate) fn start() -> Self {
        let args = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];
        let servers: Vec<_> = (0..2 * PRIMARIES).map(|_| Single::with(&args)).collect();
        for (index, server) in servers[..PRIMARIES].iter().enumerate() {
            let (first, next) = (index * SLOTS / PRIMARIES, (index + 1) * SLOTS / PRIMARIES);
            let (first, last) = (first.to_string(), (next - 1).to_string());
            server.command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        let port = servers[0].port.to_string();
        for server in &servers[1..] {
            server.command(&["CLUSTER", "MEET", "127.0.0.1", &port]);
        }
        for server in &servers {
            until("all nodes know each other", || {
                let nodes = server.text(&["CLUSTER", "NODES"]);
                nodes.lines().count() == servers.len() && !nodes.contains("handshake")
            });
        }
        for (primary, replica) in servers[..PRIMARIES].iter().zip(&servers[PRIMARIES..]) {
            let id = primary.text(&["CLUSTER", "MYID"]);
            until("a node that replicates", || {
                replica.try_command(&["CLUSTER", "REPLICATE", &id]).is_ok()
            });
        }
        let all = Self { servers };
        all.until_whole();
        all
    }

    /// Waits until every slot is served and every replica follows.
    pub(crate) fn until_whole(&self) {
        for server in &self.servers {
            until("a whole cluster", || server.says(&["CLUSTER", "INFO"], "cluster_state:ok"));
        }
        for replica in &self.servers[PRIMARIES..] {
            until("a replica that follows", || {
                replica.says(&["INFO", "replication"], "master_link_status:up")
            });
        }
    }

    pub(crate) fn url(&self) -> String {
        let ports = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port));
        format!("redis+cluster://{}", ports.collect::<Vec<_>>().join(","))
    }

    /// Which of the primaries has a slot at the start.
    pub(crate) fn owner(slot: u16) -> usize {
        (0..PRIMARIES)
            .find(|index| usize::from(slot) < (index + 1) * SLOTS / PRIMARIES)
            .unwrap_or_default()
    }

    pub(crate) fn id(&self, index: usize) -> String {
        text(self.servers[index].command(&["CLUSTER", "MYID"]))
    }
}

//! What a bucket of tokens cannot have allowed.
//!
//! In any window of time at most `burst + length * count / period` tokens pass. Every ask that was
//! sent after a window began and received before it ended was decided inside it, whenever that was;
//! so if those alone are more than fit, no choice of times explains them. The law holds in whatever
//! order the asks were decided, and even where they were stamped in another order than they were
//! decided in: each allowed ask moves the arrival time on by its price, from no earlier than the
//! beginning of the window, to no later than the stamp of the last plus the burst.

use super::{Findings, Said, Seen, Why, answered};
use crate::terms::Terms;

/// How many windows are looked through one by one: so many share a leaf of the tree.
const BLOCK: usize = 16;

/// Some windows that begin one after another.
#[derive(Clone, Copy)]
struct Node {
    /// How many asks were sent where one of them begins.
    asks: u64,
    /// That of the fullest, by what is in these windows alone.
    load: i128,
    /// Where the fullest begins.
    begin: u64,
}

/// A window for each time at which an ask was sent, and what was allowed in it until now.
///
/// An ask is in every window that begins before it, so windows are kept in a tree: what is in a
/// part of it comes on top of all that is to the left. Of each part only the fullest window is
/// known. The load of one is its beginning and what was allowed in it, in ticks.
struct Windows {
    price: i128,
    rate: i128,
    room: i128,
    /// Where each begins, in order.
    begins: Vec<u64>,
    /// How many asks that are not left out were sent just then.
    asks: Vec<u32>,
    /// The root is at 1, the children of `i` at `2 * i` and `2 * i + 1`.
    tree: Vec<Node>,
}

/// Counts the fewest asks without which every window holds no more than it may.
pub(super) fn judge(terms: Terms, cost: u64, asks: &[Seen], findings: &mut Findings) {
    let allowed = answered(asks, Said::Allowed);
    let mut windows = Windows::new(terms, cost, &allowed);
    for ask in &allowed {
        if let Some(why) = windows.add(ask) {
            findings.over(ask, why);
        }
    }
}

impl Windows {
    fn new(terms: Terms, cost: u64, allowed: &[Seen]) -> Self {
        let product = |a: u64, b: u64| i128::from(a) * i128::from(b);
        let mut begins: Vec<u64> = allowed.iter().map(|ask| ask.sent).collect();
        begins.sort_unstable();
        begins.dedup();
        let leaves = begins.len().div_ceil(BLOCK).next_power_of_two();
        let mut windows = Self {
            price: product(cost, terms.period_ns),
            rate: i128::from(terms.count),
            room: product(terms.burst, terms.period_ns),
            asks: vec![0; begins.len()],
            begins,
            tree: vec![Node::NONE; 2 * leaves],
        };
        for leaf in 0..leaves {
            windows.tree[leaves + leaf] = windows.block(leaf, usize::MAX);
        }
        for place in (1..leaves).rev() {
            windows.tree[place] = windows.both(2 * place);
        }
        windows
    }

    /// Counts an ask in every window that it is certainly in. If one of them is too full then, one
    /// ask is left out: the last that was sent, because it is in each window that any other is in
    /// and that has not ended yet.
    fn add(&mut self, ask: &Seen) -> Option<Why> {
        let place = self.begins.partition_point(|begin| *begin < ask.sent);
        self.asks[place] += 1;
        self.refresh(place / BLOCK);
        let fullest = self.fullest_until(place);
        let begin = i128::from(fullest.begin);
        let most = self.room + self.rate * (i128::from(ask.received) - begin);
        let found = fullest.load - begin * self.rate;
        if found <= most {
            return None;
        }
        self.leave_out_last();
        let asks = |ticks: i128| u64::try_from(ticks / self.price).unwrap_or(u64::MAX);
        let (from, until) = (fullest.begin, ask.received);
        Some(Why::Window { from, until, allowed: asks(found), most: asks(most) })
    }

    /// The fullest of those that begin no later than this one. A later one may begin where nothing
    /// is known yet.
    fn fullest_until(&self, place: usize) -> Node {
        let block = place / BLOCK;
        let mut found = self.block(block, place);
        let last = self.begins.len().min((block + 1) * BLOCK);
        let mut later: u64 = self.asks[place + 1..last].iter().copied().map(u64::from).sum();
        let mut node = self.leaves() + block;
        while node > 1 {
            let beside = self.tree[node ^ 1];
            if node.is_multiple_of(2) {
                later += beside.asks;
            } else {
                found = beside.then(found, self.price);
            }
            node /= 2;
        }
        Node { load: found.load + i128::from(later) * self.price, ..found }
    }

    fn leave_out_last(&mut self) {
        let mut node = 1;
        while node < self.leaves() {
            let right = 2 * node + 1;
            node = if self.tree[right].asks > 0 { right } else { 2 * node };
        }
        let block = node - self.leaves();
        let last = self.begins.len().min((block + 1) * BLOCK);
        if let Some(asks) = self.asks[..last].iter_mut().rev().find(|asks| **asks > 0) {
            *asks -= 1;
        }
        self.refresh(block);
    }

    /// Carries what has changed in a block to the root.
    fn refresh(&mut self, block: usize) {
        let mut node = self.leaves() + block;
        self.tree[node] = self.block(block, usize::MAX);
        while node > 1 {
            node /= 2;
            self.tree[node] = self.both(2 * node);
        }
    }

    /// The windows of a block, up to one of them.
    fn block(&self, block: usize, until: usize) -> Node {
        let end = self.begins.len().min((block + 1) * BLOCK).min(until.saturating_add(1));
        let first = end.min(block * BLOCK);
        let windows = self.begins[first..end].iter().zip(&self.asks[first..end]);
        windows.rev().fold(Node::NONE, |later, (&begin, &asks)| {
            let load = i128::from(begin) * self.rate + i128::from(asks) * self.price;
            Node { asks: u64::from(asks), load, begin }.then(later, self.price)
        })
    }

    fn both(&self, left: usize) -> Node {
        self.tree[left].then(self.tree[left + 1], self.price)
    }

    fn leaves(&self) -> usize {
        self.tree.len() / 2
    }
}

impl Node {
    /// No window at all.
    const NONE: Self = Self { asks: 0, load: i128::MIN, begin: 0 };

    /// These windows and later ones, whose asks are in these too.
    fn then(self, later: Self, price: i128) -> Self {
        let asks = self.asks + later.asks;
        if self.load == i128::MIN {
            return Self { asks, ..later };
        }
        let load = self.load + i128::from(later.asks) * price;
        if load < later.load { Self { asks, ..later } } else { Self { asks, load, ..self } }
    }
}

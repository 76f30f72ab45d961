//! What a bucket of tokens cannot have allowed.
//!
//! In any window of time at most `burst + length * count / period` tokens pass. Every ask that was
//! sent after a window began and received before it ended was decided inside it, whenever that was;
//! so if those alone are more than fit, no choice of times explains them. The law holds in whatever
//! order the asks were decided, and even where they were stamped in another order than they were
//! decided in: each allowed ask moves the arrival time on by its price, from no earlier than the
//! beginning of the window, to no later than the stamp of the last plus the burst.

use std::collections::VecDeque;

use super::{Findings, Said, Seen, Why, answered};
use crate::terms::Terms;

/// A window that begins where an ask was sent.
#[derive(Clone, Copy)]
struct Window {
    begin: u64,
    /// What was allowed in it until now, and its beginning, in ticks: the larger the fuller.
    load: i128,
    /// How many asks that are not left out were sent just then.
    asks: u32,
}

/// The windows that are not known to be less full than another for ever.
struct Windows {
    price: i128,
    rate: i128,
    room: i128,
    /// The fullest of those that every later ask falls into.
    settled: Option<Window>,
    /// One for each time at which asks were sent that later ones may have been sent before, in
    /// order. So many at a time as there are connections, not asks.
    open: VecDeque<Window>,
}

/// Counts the fewest asks without which every window holds no more than it may.
pub(super) fn judge(terms: Terms, cost: u64, asks: &[Seen], findings: &mut Findings) {
    let allowed = answered(asks, Said::Allowed);
    let product = |a: u64, b: u64| i128::from(a) * i128::from(b);
    let mut windows = Windows {
        price: product(cost, terms.period_ns),
        rate: i128::from(terms.count),
        room: product(terms.burst, terms.period_ns),
        settled: None,
        open: VecDeque::new(),
    };
    let mut first_sent_behind = vec![u64::MAX; allowed.len()];
    for place in (1..allowed.len()).rev() {
        first_sent_behind[place - 1] = first_sent_behind[place].min(allowed[place].sent);
    }
    for (ask, sent_behind) in allowed.iter().zip(first_sent_behind) {
        if let Some(why) = windows.add(ask) {
            findings.over(ask, why);
        }
        windows.settle(sent_behind);
    }
}

impl Windows {
    /// Counts an ask in every window that it is certainly in. If one of them is too full then, one
    /// ask is left out: the last that was sent, because it is in each window that any other is in
    /// and that has not ended yet.
    fn add(&mut self, ask: &Seen) -> Option<Why> {
        let end = self.place_behind(ask.sent);
        let inside = self.open.iter_mut().take(end).chain(self.settled.as_mut());
        let mut fullest = Window { begin: ask.sent, load: i128::MIN, asks: 0 };
        for window in inside {
            window.load += self.price;
            if window.load > fullest.load {
                fullest = *window;
            }
        }
        let most = self.room + self.rate * (i128::from(ask.received) - i128::from(fullest.begin));
        let found = fullest.load - i128::from(fullest.begin) * self.rate;
        if found <= most {
            return None;
        }
        self.leave_out_last();
        let asks = |ticks: i128| u64::try_from(ticks / self.price).unwrap_or(u64::MAX);
        let (from, until) = (fullest.begin, ask.received);
        Some(Why::Window { from, until, allowed: asks(found), most: asks(most) })
    }

    /// The place behind the window that begins when an ask was sent, which is there then.
    fn place_behind(&mut self, sent: u64) -> usize {
        let place = self.open.partition_point(|window| window.begin < sent);
        match self.open.get_mut(place) {
            Some(window) if window.begin == sent => window.asks += 1,
            _ => {
                let later: u32 = self.open.iter().skip(place).map(|window| window.asks).sum();
                let load = i128::from(sent) * self.rate + i128::from(later) * self.price;
                self.open.insert(place, Window { begin: sent, load, asks: 1 });
            }
        }
        place + 1
    }

    fn leave_out_last(&mut self) {
        let left = self.open.iter_mut().chain(self.settled.as_mut());
        left.for_each(|window| window.load -= self.price);
        if let Some(last) = self.open.back_mut() {
            last.asks -= 1;
            if last.asks == 0 {
                self.open.pop_back();
            }
        }
    }

    /// All later asks were sent no earlier than this, so they are in the same of the windows that
    /// began before it: the fullest of those stays the fullest.
    fn settle(&mut self, sent_behind: u64) {
        while let Some(window) = self.open.front()
            && window.begin <= sent_behind
        {
            let is_fuller = self.settled.is_none_or(|settled| settled.load < window.load);
            if is_fuller {
                self.settled = Some(*window);
            }
            self.open.pop_front();
        }
    }
}

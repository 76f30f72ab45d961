//! What is shown: the latest counters, how fast they grow, and where the eye is.

use std::collections::{BTreeMap, VecDeque};

use ratekeeper_server::stats::{BusyOf, Rulings, Stats};

use crate::counted::{OTHERS, asked, sum};

/// How many seconds the small charts go back.
pub(super) const HISTORY: usize = 60;
/// How long a filter can be.
pub(super) const FILTER_CHARS_MAX: usize = 64;

/// Whether counters arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// They do, as they change.
    Live,
    /// They are read again and again.
    Polled,
    /// They do not, and why.
    Lost(String),
}

/// A part of the screen that can be moved in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Limits,
    Busiest,
    MostDenied,
}

/// What the person does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    First,
    Last,
    Tab,
    BackTab,
    Enter,
    Escape,
    Backspace,
    Interrupt,
}

/// How fast one limit decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pace {
    /// Per second.
    pub(super) allowed: f64,
    pub(super) denied: f64,
    pub(super) shadow: f64,
    /// Decisions per second, the newest last.
    pub(super) history: VecDeque<f64>,
}

/// A line of the table of limits.
#[derive(Clone, Debug)]
pub(super) struct LimitLine<'a> {
    pub(super) name: &'a str,
    pub(super) total: Rulings,
    pub(super) pace: Option<&'a Pace>,
}

/// All that is shown.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Where the counters come from.
    pub(super) source: String,
    pub(super) link: Link,
    pub(super) stats: Option<Stats>,
    paces: BTreeMap<String, Pace>,
    /// Of the limits that are too many to be told by name.
    others: Pace,
    pub(super) whole: Pace,
    pub(super) pane: Pane,
    /// The line in the pane.
    pub(super) line: usize,
    pub(super) filter: String,
    pub(super) is_typing: bool,
    pub(super) is_helping: bool,
    pub(super) is_over: bool,
}

impl View {
    /// Nothing yet.
    pub(super) fn new(source: String, link: Link) -> Self {
        Self {
            source,
            link,
            stats: None,
            paces: BTreeMap::new(),
            others: Pace::default(),
            whole: Pace::default(),
            pane: Pane::default(),
            line: 0,
            filter: String::new(),
            is_typing: false,
            is_helping: false,
            is_over: false,
        }
    }

    /// Newer counters.
    pub(super) fn take(&mut self, stats: Stats) {
        let old = self.stats.take().filter(|old| follows(old, &stats));
        if let Some(old) = old {
            let seconds = stats.at - old.at;
            self.paces.retain(|name, _| stats.limits.contains_key(name));
            for (name, now) in &stats.limits {
                let before = old.limits.get(name).copied().unwrap_or_default();
                self.paces.entry(name.clone()).or_default().add(before, *now, seconds);
            }
            self.others.add(old.others, stats.others, seconds);
            self.whole.add(whole(&old), whole(&stats), seconds);
        } else {
            // Another server, or the same one after a restart: nothing to compare with.
            self.paces.clear();
            self.others = Pace::default();
            self.whole = Pace::default();
        }
        self.stats = Some(stats);
        self.stay_inside();
    }

    /// The limits that are shown: the busiest now first, then those that were asked most. Those
    /// without a name of their own are the last line; no filter finds them.
    pub(super) fn limits(&self) -> Vec<LimitLine<'_>> {
        let Some(stats) = &self.stats else { return Vec::new() };
        let lines = stats.limits.iter().filter(|(name, _)| self.is_wanted(name));
        let mut lines: Vec<_> = lines
            .map(|(name, total)| LimitLine { name, total: *total, pace: self.paces.get(name) })
            .collect();
        lines.sort_by(|a, b| {
            let pace = |line: &LimitLine<'_>| line.pace.map_or(0.0, Pace::sum);
            let by_pace = pace(b).total_cmp(&pace(a));
            by_pace.then(asked(b.total).cmp(&asked(a.total))).then(a.name.cmp(b.name))
        });
        if self.filter.is_empty() && asked(stats.others) > 0 {
            let pace = Some(&self.others);
            lines.push(LimitLine { name: OTHERS, total: stats.others, pace });
        }
        lines
    }

    /// The ids that are shown in one of the lists.
    pub(super) fn ids(&self, pane: Pane) -> Vec<&BusyOf> {
        let Some(stats) = &self.stats else { return Vec::new() };
        let all = if pane == Pane::Busiest { &stats.busiest } else { &stats.most_denied };
        all.iter().filter(|busy| self.is_wanted(&busy.limit)).collect()
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: Key) {
        match key {
            Key::Interrupt => self.is_over = true,
            _ if self.is_helping => self.is_helping = false,
            key if self.is_typing => self.edit(key),
            Key::Char('q') => self.is_over = true,
            Key::Char('?') => self.is_helping = true,
            Key::Char('/') => self.is_typing = true,
            Key::Escape => self.filter.clear(),
            Key::Up | Key::Char('k') => self.line = self.line.saturating_sub(1),
            Key::Down | Key::Char('j') => self.line = self.line.saturating_add(1),
            Key::First | Key::Char('g') => self.line = 0,
            Key::Last | Key::Char('G') => self.line = usize::MAX,
            Key::Tab => self.go(self.pane.next()),
            Key::BackTab => self.go(self.pane.next().next()),
            Key::Char(_) | Key::Enter | Key::Backspace => {}
        }
        self.stay_inside();
    }

    fn edit(&mut self, key: Key) {
        match key {
            Key::Char(c) if self.filter.chars().count() < FILTER_CHARS_MAX => self.filter.push(c),
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Escape => {
                self.filter.clear();
                self.is_typing = false;
            }
            Key::Enter | Key::Tab => self.is_typing = false,
            _ => {}
        }
    }

    fn go(&mut self, pane: Pane) {
        self.pane = pane;
        self.line = 0;
    }

    fn stay_inside(&mut self) {
        let lines = match self.pane {
            Pane::Limits => self.limits().len(),
            pane => self.ids(pane).len(),
        };
        self.line = self.line.min(lines.saturating_sub(1));
    }

    fn is_wanted(&self, name: &str) -> bool {
        name.to_lowercase().contains(&self.filter.to_lowercase())
    }
}

impl Pane {
    fn next(self) -> Self {
        match self {
            Self::Limits => Self::Busiest,
            Self::Busiest => Self::MostDenied,
            Self::MostDenied => Self::Limits,
        }
    }
}

impl Pace {
    /// Decisions per second, of any kind.
    pub(super) fn sum(&self) -> f64 {
        self.allowed + self.denied + self.shadow
    }

    fn add(&mut self, before: Rulings, now: Rulings, seconds: f64) {
        self.allowed = per_second(before.allowed, now.allowed, seconds);
        self.denied = per_second(before.denied, now.denied, seconds);
        self.shadow = per_second(before.shadow, now.shadow, seconds);
        if self.history.len() >= HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(self.sum());
    }
}

/// Whether the newer counters are of the same run of the same server.
fn follows(old: &Stats, new: &Stats) -> bool {
    new.at > old.at && new.uptime_secs >= old.uptime_secs && asked(whole(new)) >= asked(whole(old))
}

fn whole(stats: &Stats) -> Rulings {
    sum(stats.limits.values().chain([&stats.others]))
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with two digits")]
fn per_second(before: u64, now: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds
}

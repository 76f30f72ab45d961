//! Rules about Rust code. They see tokens, so a comment or a string breaks none of them.

use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Violation;
use super::text::is_empty_name;

/// Something that may be written in a few places only.
struct Restricted {
    /// The tokens, in order.
    tokens: &'static [&'static str],
    /// What to do instead.
    remedy: &'static str,
    /// Files and folders (ending in `/`) where it may be, each with the reason.
    allowed: &'static [(&'static str, &'static str)],
}

#[rustfmt::skip]
const RESTRICTED: [Restricted; 9] = [
    Restricted {
        tokens: &["unsafe"],
        remedy: "write it safely; where a measurement pays for it, give it a module of its own and list that in tidy",
        allowed: &[
            ("crates/ratekeeper/src/store/prefetch.rs", "a prefetch reads nothing and saves a cache miss per key"),
            ("crates/ratekeeper/src/store/cipher.rs", "the processor's own AES: a decision takes a fifth less instructions"),
            ("crates/ratekeeper/src/store/sync.rs", "a lock that wakes nobody: a tenth less time per decision"),
            ("crates/ratekeeper/src/store/shard_memory.rs", "shards in one mapping may have huge pages: a tenth less time per decision"),
            ("crates/ratekeeper-testkit/src/allocations.rs", "an allocator that counts cannot be written otherwise"),
        ],
    },
    Restricted { tokens: &["Instant", ":", ":", "now"], remedy: NOW, allowed: CLOCK },
    Restricted { tokens: &["SystemTime", ":", ":", "now"], remedy: NOW, allowed: CLOCK },
    Restricted { tokens: &["env", ":", ":", "var"], remedy: SETTING, allowed: TOOL },
    Restricted { tokens: &["env", ":", ":", "var_os"], remedy: SETTING, allowed: TOOL },
    Restricted { tokens: &["env", ":", ":", "vars"], remedy: SETTING, allowed: TOOL },
    Restricted {
        tokens: &["thread", ":", ":", "sleep"],
        remedy: "wait for the event itself, or use virtual time",
        allowed: &[
            ("crates/ratekeeper-bench/src/trial.rs", "the trial is defined by a sleep between requests"),
            ("crates/ratekeeper/src/store/sync.rs", "a latch that is held for long wakes nobody"),
        ],
    },
    Restricted {
        tokens: &["#", "[", "ignore"],
        remedy: "mend the test or delete it; a test that is not run proves nothing",
        allowed: &[],
    },
    Restricted {
        tokens: &["dbg", "!"],
        remedy: "remove it",
        allowed: &[],
    },
];

const NOW: &str = "take `now` as an argument; only `Clock` reads the time";
const SETTING: &str =
    "take the setting as an argument; only the command line reads the environment";

const CLOCK: &[(&str, &str)] = &[
    ("crates/ratekeeper-time/src/lib.rs", "`Clock`, the one place that reads a clock"),
    (
        "crates/ratekeeper-tracker/src/gate/time.rs",
        "tokio's clock, which its timers run on and tests pause",
    ),
    ("xtask/", "durations shown to people, and benchmarks"),
];

const TOOL: &[(&str, &str)] = &[("xtask/", "a developer's tool, never shipped")];

/// Every rule about code, for one Rust file.
pub(super) fn check(path: &str, text: &str) -> Vec<Violation> {
    let tokens = match TokenStream::from_str(text) {
        Ok(stream) => flatten(stream),
        Err(error) => {
            let line = error.span().start().line;
            return vec![Violation::new(path, line, format!("not Rust: {error}"))];
        }
    };
    let mut violations = names(path, &tokens);
    for rule in RESTRICTED.iter().filter(|rule| !rule.is_allowed_in(path)) {
        violations.extend(rule.check(path, &tokens));
    }
    violations
}

impl Restricted {
    fn is_allowed_in(&self, path: &str) -> bool {
        self.allowed.iter().any(|(place, _reason)| {
            path == *place || place.ends_with('/') && path.starts_with(place)
        })
    }

    fn check(&self, path: &str, tokens: &[Token]) -> Vec<Violation> {
        let found = tokens.windows(self.tokens.len()).filter(|window| {
            window.iter().zip(self.tokens).all(|(token, wanted)| token.text == *wanted)
        });
        let what = format!("`{}` here: {}", self.tokens.concat(), self.remedy);
        found.map(|window| Violation::new(path, window[0].line, what.clone())).collect()
    }
}

/// Functions and modules whose names say nothing.
fn names(path: &str, tokens: &[Token]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for pair in tokens.windows(2) {
        let (keyword, name) = (pair[0].text.as_str(), pair[1].text.as_str());
        if keyword == "fn" && name.starts_with("get_") {
            let what = format!("`fn {name}`: leave out the `get_`");
            violations.push(Violation::new(path, pair[1].line, what));
        }
        if keyword == "mod" && is_empty_name(name) {
            let what = format!("`mod {name}` says nothing: name it after what is inside");
            violations.push(Violation::new(path, pair[1].line, what));
        }
    }
    violations
}

/// One token and its line.
struct Token {
    text: String,
    line: usize,
}

/// The tokens in the order in which they are written, brackets included.
fn flatten(stream: TokenStream) -> Vec<Token> {
    let mut tokens = Vec::new();
    for tree in stream {
        let line = tree.span().start().line;
        let TokenTree::Group(group) = tree else {
            tokens.push(Token { text: tree.to_string(), line });
            continue;
        };
        let (open, close) = brackets(group.delimiter());
        tokens.push(Token { text: open.to_owned(), line });
        let end = group.span_close().start().line;
        tokens.extend(flatten(group.stream()));
        tokens.push(Token { text: close.to_owned(), line: end });
    }
    tokens
}

fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

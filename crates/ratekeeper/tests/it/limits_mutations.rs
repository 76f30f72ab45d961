//! Whatever is done to a good file, it is loaded or refused; nothing else happens.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use ratekeeper::limits::{Limits, Source, changes};

const DEFAULTS: &str = include_str!("../limits/defaults.yaml");
const OVERRIDES: &str = include_str!("../limits/overrides.yaml");
const OVERRIDES_LIST: &str = include_str!("../limits/overrides_list.yaml");

const ROUNDS: usize = 50_000;
/// What the mutations insert: whatever means something to YAML, to durations or to terminals.
const PIECES: [&str; 48] = [
    ":",
    ": ",
    "- ",
    "? ",
    "#",
    " #",
    "\n",
    "\r",
    "\r\n",
    "\t",
    " ",
    "  ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "'",
    "|",
    ">",
    "|+2\n",
    "&a ",
    "*a",
    "!!str ",
    "!",
    "%",
    "%YAML 1.2\n",
    "@",
    "`",
    "---\n",
    "...\n",
    "<<: ",
    "~",
    "\0",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "é",
    "𝄞",
    "\\x",
    "\\u00",
    "0",
    "9",
    ".",
    "-",
    "h",
    "burst",
];

/// Xorshift: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }
}

/// Two places in the text, the first not after the second.
fn range(bytes: &[u8], random: &mut Random) -> (usize, usize) {
    let start = random.below(bytes.len());
    (start, start + random.below((bytes.len() - start).min(40) + 1))
}

fn swap_lines(bytes: &mut Vec<u8>, random: &mut Random) {
    let mut lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let (one, two) = (random.below(lines.len()), random.below(lines.len()));
    if !lines.is_empty() {
        lines.swap(one, two);
    }
    *bytes = lines.concat();
}

fn mutate_once(bytes: &mut Vec<u8>, random: &mut Random) {
    let (start, end) = range(bytes, random);
    match random.below(6) {
        0 if !bytes.is_empty() => bytes[start] ^= 1 << random.below(8),
        1 => drop(bytes.drain(start..end)),
        2 => {
            let copy = bytes[start..end].to_vec();
            bytes.splice(start..start, copy);
        }
        3 => swap_lines(bytes, random),
        4 => bytes.truncate(bytes.len() - random.below(bytes.len() / 2)),
        _ => {
            let piece = PIECES[random.below(PIECES.len())];
            bytes.splice(start..start, piece.bytes());
        }
    }
}

fn mutate(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        mutate_once(&mut bytes, random);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether the files load. If they do, they load again to the same; if not, every fault stands
/// within its file and can be shown.
fn check(defaults: &str, overrides: Option<&str>) -> bool {
    let source = Source { name: "d", text: defaults };
    let overrides = overrides.map(|text| Source { name: "o", text });
    let parse = || Limits::parse(&source, overrides.as_ref());
    match parse() {
        Ok(limits) => {
            let again = parse().unwrap();
            assert_eq!(limits, again);
            assert_eq!(changes(&limits, &again), []);
            true
        }
        Err(faults) => {
            for fault in &faults {
                let text = if &*fault.file == "d" { defaults } else { overrides.unwrap().text };
                let lines = 1 + text.matches(['\n', '\r']).count();
                assert!((1..=lines).contains(&usize::try_from(fault.line).unwrap()), "{fault}");
                assert!(fault.column >= 1 && fault.length >= 1, "{fault}");
                assert_eq!(fault.to_string().lines().count(), 4, "{fault}");
            }
            false
        }
    }
}

#[test]
fn mutated_defaults_load_or_are_refused() {
    let mut random = Random(0x5eed_0001);
    let loaded = (0..ROUNDS).filter(|_| check(&mutate(DEFAULTS, &mut random), None)).count();
    assert!(loaded > ROUNDS / 50 && loaded < ROUNDS / 2, "{loaded} loaded");
}

#[test]
fn mutated_overrides_load_or_are_refused() {
    let mut random = Random(0x5eed_0002);
    let mut loaded = 0;
    for round in 0..ROUNDS {
        let good = if round % 2 == 0 { OVERRIDES } else { OVERRIDES_LIST };
        loaded += usize::from(check(DEFAULTS, Some(&mutate(good, &mut random))));
    }
    assert!(loaded > ROUNDS / 50 && loaded < ROUNDS / 2, "{loaded} loaded");
}

#[test]
fn noise_loads_or_is_refused() {
    let mut random = Random(0x5eed_0003);
    for _ in 0..ROUNDS {
        let length = random.below(24);
        let text: String = (0..length).map(|_| PIECES[random.below(PIECES.len())]).collect();
        check(&text, Some(&text));
    }
}

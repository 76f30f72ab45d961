//! The body that comes most: one ask, as programs write it.

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask<'b> {
    pub(super) limit: &'b str,
    pub(super) id: &'b str,
    pub(super) cost: Option<u64>,
}

/// Longer numbers may not fit.
const DIGITS_MAX: usize = 18;

/// Reads `{"limit":"..","id":"..","cost":1}`, the cost or not, with a blank behind each colon and
/// comma or none. Nothing if it is anything else, however right: that is read by who reads all of
/// JSON.
pub(super) fn read(body: &[u8]) -> Option<Ask<'_>> {
    let rest = str::from_utf8(body).ok()?;
    let (limit, rest) = text(key(rest.strip_prefix('{')?, "\"limit\":")?)?;
    let (id, rest) = text(key(next(rest)?, "\"id\":")?)?;
    let (cost, rest) = match next(rest) {
        None => (None, rest),
        Some(rest) => number(key(rest, "\"cost\":")?).map(|(cost, rest)| (Some(cost), rest))?,
    };
    (rest == "}").then_some(Ask { limit, id, cost })
}

fn key<'b>(rest: &'b str, key: &str) -> Option<&'b str> {
    rest.strip_prefix(key).map(without_blank)
}

fn next(rest: &str) -> Option<&str> {
    rest.strip_prefix(',').map(without_blank)
}

fn without_blank(rest: &str) -> &str {
    rest.strip_prefix(' ').unwrap_or(rest)
}

/// A text in which nothing is escaped, and what stands behind it.
fn text(rest: &str) -> Option<(&str, &str)> {
    let rest = rest.strip_prefix('"')?;
    let is_special = |byte: u8| byte == b'"' || byte == b'\\' || byte < b' ';
    let (text, rest) = rest.split_at_checked(rest.bytes().position(is_special)?)?;
    Some((text, rest.strip_prefix('"')?))
}

/// Digits that JSON takes for a whole number, and what stands behind them.
fn number(rest: &str) -> Option<(u64, &str)> {
    let end = rest.bytes().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = rest.split_at_checked(end)?;
    let is_padded = digits.len() > 1 && digits.starts_with('0');
    let number = digits.parse().ok().filter(|_| !is_padded && digits.len() <= DIGITS_MAX)?;
    Some((number, rest))
}

//! The wire: from a datagram to a request, and from what was decided to an answer.
//!
//! Nothing here allocates beyond the caller's buffer, and no input can make it panic.

use crate::{number, scan};

/// What [`Verdict::limit`] and [`Verdict::rate`] are printed as at most: with it, an answer to
/// `over_limit` has 47 bytes at most, and one client has room for 100.
const PRINTED_MAX: f64 = 1e12;
/// What [`Verdict::period_secs`] is printed as at most: what a 32-bit `%d` can.
const PERIOD_PRINTED_MAX: u64 = i32::MAX as u64;
/// What of such an answer is the same for all uses of a rule: 27 bytes at most.
const TERMS_BYTES_MAX: usize = 32;

/// What a client wants, in the bytes of its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'d> {
    /// The digits that the client tells its answers apart by, and the space after them; empty if
    /// it gave none. The answer begins with them.
    pub prefix: &'d [u8],
    /// The rest of it.
    pub body: Body<'d>,
}

/// What a client wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'d> {
    /// Whether one more use of the key is over its limit.
    OverLimit(&'d [u8]),
    /// How often the key was used.
    Stats(&'d [u8]),
    /// How many keys there are.
    Size,
    /// Whether anybody is there.
    Ping,
    /// Three questions in one, as JSON.
    CheckLimit(&'d [u8]),
}

/// Reads a datagram; `None` for what is no request.
pub fn parse(datagram: &[u8]) -> Option<Request<'_>> {
    let digits = datagram.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (prefix, body) = match digits {
        0 => (&[][..], datagram),
        _ => datagram.split_at_checked(digits.saturating_add(1))?,
    };
    if !prefix.is_empty() && prefix.last() != Some(&b' ') {
        return None;
    }
    parse_body(body).map(|body| Request { prefix, body })
}

fn parse_body(body: &[u8]) -> Option<Body<'_>> {
    // The most frequent first.
    if let Some(key) = body.strip_prefix(b"over_limit ") {
        return argument(key).map(Body::OverLimit);
    }
    if let Some(key) = body.strip_prefix(b"get_stats ") {
        return argument(key).map(Body::Stats);
    }
    if let Some(json) = body.strip_prefix(b"check_limit ") {
        return argument(json).map(Body::CheckLimit);
    }
    match body {
        b"ping" => Some(Body::Ping),
        b"get_size" => Some(Body::Size),
        _ => None,
    }
}

/// One line feed at the end is dropped; elsewhere there is none.
fn argument(rest: &[u8]) -> Option<&[u8]> {
    let argument = rest.strip_suffix(b"\n").unwrap_or(rest);
    scan::position(b'\n', argument).is_none().then_some(argument)
}

/// The answer to one use of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Whether the key is over its limit.
    pub over: bool,
    /// How much it was used, in uses per period.
    pub rate: f64,
    /// How many uses per period are allowed.
    pub limit: f64,
    /// The period in whole seconds.
    pub period_secs: u64,
}

/// `ok N 1.4 22.0 20`
pub fn write_verdict(verdict: &Verdict, out: &mut Vec<u8>) {
    Terms::default().write(verdict, out);
}

/// Writes verdicts. Those of one rule end alike, so the end of the last is kept.
#[derive(Default)]
pub(super) struct Terms {
    /// Whose end it is: of which limit, by its bits, and period.
    of: Option<(u64, u64)>,
    /// `" 22.0 20"`, and what is cut off: a copy of known length is no call.
    text: Vec<u8>,
    length: usize,
}

impl Terms {
    /// Appends what [`write_verdict`] does.
    pub(super) fn write(&mut self, verdict: &Verdict, out: &mut Vec<u8>) {
        let of = Some((verdict.limit.to_bits(), verdict.period_secs));
        if self.of != of {
            self.of = of;
            self.change(verdict);
        }
        write_beginning(verdict, out);
        let end = out.len().saturating_add(self.length);
        if let Some(text) = self.text.first_chunk::<TERMS_BYTES_MAX>() {
            out.extend_from_slice(text);
            out.truncate(end);
        }
    }

    #[cold]
    fn change(&mut self, verdict: &Verdict) {
        let text = &mut self.text;
        text.clear();
        text.push(b' ');
        write_tenths(verdict.limit, text);
        text.push(b' ');
        number::write(verdict.period_secs.min(PERIOD_PRINTED_MAX), text);
        self.length = text.len();
        text.resize(TERMS_BYTES_MAX, 0);
    }
}

/// `ok N 1.4`
fn write_beginning(verdict: &Verdict, out: &mut Vec<u8>) {
    let word = if verdict.over { b"ok Y \0\0\0" } else { b"ok N \0\0\0" };
    let (whole, tenth) = tenths(verdict.rate);
    let Some((digits, count)) = number::short(whole) else {
        out.extend_from_slice(if verdict.over { b"ok Y " } else { b"ok N " });
        return write_tenths(verdict.rate, out);
    };
    // Five bytes, eight digits at most and two more are one copy of known length.
    let end = u128::from(u16::from_le_bytes([b'.', tenth])) << count.saturating_mul(8);
    let text = u128::from(u64::from_le_bytes(*word)) | (u128::from(digits) | end) << 40;
    let length = out.len().saturating_add(count).saturating_add(7);
    out.extend_from_slice(&text.to_le_bytes());
    out.truncate(length);
}

/// `n_req=2 n_over=1 last_max_rate=1 key=some-key`
pub fn write_stats(requests: u64, over: u64, last_max_rate: f64, key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"n_req=");
    number::write(requests, out);
    out.extend_from_slice(b" n_over=");
    number::write(over, out);
    out.extend_from_slice(b" last_max_rate=");
    number::write(whole(last_max_rate), out);
    out.extend_from_slice(b" key=");
    out.extend_from_slice(key);
}

/// `size=480/1048576 keys=12`, and `size=0 keys=0` if there is none.
pub fn write_size(keys: usize, bytes: usize, bytes_max: usize, out: &mut Vec<u8>) {
    let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    out.extend_from_slice(b"size=");
    if keys == 0 {
        out.extend_from_slice(b"0 keys=0");
        return;
    }
    number::write(number(bytes), out);
    out.push(b'/');
    number::write(number(bytes_max), out);
    out.extend_from_slice(b" keys=");
    number::write(number(keys), out);
}

/// A number as `%.1f` prints it, but never a sign, an exponent or what is not a number.
fn write_tenths(number: f64, out: &mut Vec<u8>) {
    let (whole, tenth) = tenths(number);
    number::write(whole, out);
    out.extend_from_slice(&[b'.', tenth]);
}

/// The whole part of a number that is rounded to tenths, and the digit behind the point.
///
/// A double is `mantissa / 2^shift`, so ten times it is a whole number and a rest, and the rest
/// says how to round: to the nearest tenth, and to the even one where two are as near.
fn tenths(number: f64) -> (u64, u8) {
    let bits = bounded(number).to_bits();
    let exponent = bits >> f64_parts::MANTISSA_BITS;
    let mantissa = bits & f64_parts::MANTISSA | f64_parts::HIDDEN;
    let shift = f64_parts::EXPONENT_OF_ONE.saturating_sub(exponent);
    let tens = mantissa.saturating_mul(10);
    // With 53 bits and four more, what is shifted further is less than half a tenth.
    let tenths = match u32::try_from(shift) {
        Ok(shift @ 1..=63) => {
            let (tenths, half) = (tens >> shift, 1_u64 << shift.saturating_sub(1));
            let rest = tens & (half << 1).wrapping_sub(1);
            let up = rest > half || rest == half && tenths & 1 == 1;
            tenths.saturating_add(u64::from(up))
        }
        _ => 0,
    };
    let tenth = u8::try_from(tenths.rem_euclid(10)).unwrap_or_default();
    (tenths.div_euclid(10), b'0'.saturating_add(tenth))
}

/// How a double is laid out.
mod f64_parts {
    pub(super) const MANTISSA_BITS: u32 = 52;
    pub(super) const HIDDEN: u64 = 1 << MANTISSA_BITS;
    pub(super) const MANTISSA: u64 = HIDDEN - 1;
    /// The exponent with which a mantissa stands for itself.
    pub(super) const EXPONENT_OF_ONE: u64 = 1075;
}

/// What is not a number counts as none, and so does what is below zero.
fn bounded(number: f64) -> f64 {
    if number > 0.0 { number.min(PRINTED_MAX) } else { 0.0 }
}

/// The integer part, of a number of seconds or uses.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to PRINTED_MAX")]
pub(super) fn whole(number: f64) -> u64 {
    bounded(number) as u64
}

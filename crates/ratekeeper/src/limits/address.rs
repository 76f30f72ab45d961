//! IP addresses and ranges of them, in their one spelling.
#![warn(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

use super::id::{Cursor, IdBuffer, IdError};

/// The size of the ranges that IPv6 addresses are counted by: what one subscriber is given.
const RANGE_PREFIX_BITS: u8 = 48;
pub(super) const RANGE_SUFFIX: &str = "/48";
const IPV6_BITS: u8 = 128;

/// A socket that listens for both families sees an IPv4 client as `::ffff:10.0.0.1`. It is the
/// same client, and must not get a second bucket by coming in on the other socket.
pub(super) fn ip_address<'a>(id: &'a str, buffer: &'a mut IdBuffer) -> Result<&'a str, IdError> {
    match id.parse() {
        // The parser takes no leading zeros, so the address is spelled as it must be.
        Ok(IpAddr::V4(_)) => Ok(id),
        Ok(IpAddr::V6(address)) => {
            let written = buffer.write(|cursor| match address.to_ipv4_mapped() {
                Some(address) => write!(cursor, "{address}"),
                None => write_ipv6(cursor, address),
            });
            written.ok_or(IdError::IpAddress)
        }
        Err(_) => Err(IdError::IpAddress),
    }
}

/// The /48 that an address or a range lies in.
pub(super) fn ipv6_range<'a>(id: &str, buffer: &'a mut IdBuffer) -> Result<&'a str, IdError> {
    let (address, bits) = match id.split_once('/') {
        Some((address, bits)) => (address, prefix_bits(bits).ok_or(IdError::Ipv6Range)?),
        None => (id, IPV6_BITS),
    };
    let address = match address.parse() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_none() => address,
        Ok(_) => return Err(IdError::Ipv4Range),
        Err(_) => return Err(IdError::Ipv6Range),
    };
    if bits < RANGE_PREFIX_BITS {
        return Err(IdError::RangeTooWide);
    }
    let [a, b, c, ..] = address.segments();
    let written = buffer.write(|cursor| {
        write_ipv6(cursor, Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))?;
        cursor.write_str(RANGE_SUFFIX)
    });
    written.ok_or(IdError::Ipv6Range)
}

fn prefix_bits(text: &str) -> Option<u8> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let bits = if is_number || text == "0" { text.parse().ok()? } else { return None };
    (bits <= IPV6_BITS).then_some(bits)
}

/// Spells it as the standard library does, but without the formatting machinery: an ask waits.
pub(super) fn write_ipv6(cursor: &mut Cursor<'_>, address: Ipv6Addr) -> fmt::Result {
    let segments = address.segments();
    let zeros = longest_zeros(segments);
    for (place, segment) in segments.into_iter().enumerate() {
        if place == zeros.start && !zeros.is_empty() {
            cursor.write_str("::")?;
        }
        if zeros.contains(&place) {
            continue;
        }
        if place != 0 && place != zeros.end {
            cursor.push(b':')?;
        }
        write_segment(cursor, segment)?;
    }
    Ok(())
}

/// The longest run of zeros, the first of several; a single zero is written out.
fn longest_zeros(segments: [u16; 8]) -> Range<usize> {
    let (mut longest, mut run) = (0..0, 0..0);
    for (place, segment) in segments.into_iter().enumerate() {
        let next = place.saturating_add(1);
        run = if segment == 0 { run.start..next } else { next..next };
        if run.len() > longest.len() && run.len() > 1 {
            longest = run.clone();
        }
    }
    longest
}

fn write_segment(cursor: &mut Cursor<'_>, segment: u16) -> fmt::Result {
    let [high, low] = segment.to_be_bytes();
    let digits = [high >> 4, high & 0xf, low >> 4, low & 0xf];
    let leading = digits.iter().take(3).take_while(|digit| **digit == 0).count();
    digits.into_iter().skip(leading).try_for_each(|digit| cursor.push_hex(digit))
}

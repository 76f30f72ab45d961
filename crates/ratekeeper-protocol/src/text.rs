//! Text in what was read: checked as a whole, which takes far less than word by word.

/// The longest text that bytes begin with.
#[inline]
pub(crate) fn leading_text(bytes: &[u8]) -> &str {
    let text = |bytes| str::from_utf8(bytes);
    text(bytes).unwrap_or_else(|wrong| {
        let valid = bytes.get(..wrong.valid_up_to()).map(text);
        valid.and_then(Result::ok).unwrap_or_default()
    })
}

/// The text that bytes are; without another check where they are a part of `text`, which is known already.
#[inline]
pub(crate) fn text_in<'a>(text: &'a str, bytes: &'a [u8]) -> Option<&'a str> {
    let start = bytes.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
    match text.get(start..start.wrapping_add(bytes.len())) {
        Some(part) => Some(part),
        None => str::from_utf8(bytes).ok(),
    }
}

/// Appends the digits of a number.
#[inline]
pub(crate) fn push_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

//! A line cut into words, as a shell does.

/// Words stand between blanks; quotes of either kind hold blanks together. Refuses a quote that
/// is not closed, and a line without a word.
pub(crate) fn split(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(quote) = quote {
        return Err(format!("the {quote} is never closed"));
    }
    words.extend(word);
    if words.is_empty() { Err("there is no word in it".into()) } else { Ok(words) }
}

#[cfg(test)]
mod tests;

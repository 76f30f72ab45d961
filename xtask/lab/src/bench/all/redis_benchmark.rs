//! What `redis-benchmark --csv` prints.

use super::super::Failure;

/// One row of it.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    /// Requests per second.
    pub(super) rate: f64,
    /// The middle latency, in milliseconds.
    pub(super) p50: f64,
}

/// Reads its only row by the names in its head. Refuses anything else, also what it says of errors.
pub(super) fn read(text: &str) -> Result<Row, Failure> {
    let mut lines = text.lines().map(str::trim).filter(|line| line.starts_with('"'));
    let head = fields(lines.next().ok_or_else(|| format!("redis-benchmark said `{text}`"))?);
    let row =
        fields(lines.next().ok_or_else(|| format!("redis-benchmark measured nothing: {text}"))?);
    let number = |name: &str| -> Result<f64, Failure> {
        let place = head.iter().position(|field| field == name);
        let text = place.and_then(|place| row.get(place));
        let text = text.ok_or_else(|| format!("redis-benchmark tells no {name}"))?;
        Ok(text.parse()?)
    };
    Ok(Row { rate: number("rps")?, p50: number("p50_latency_ms")? })
}

/// The fields of a line, without their quotes. A command may have commas and quotes in it, which
/// are doubled.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => field.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            letter => field.push(letter),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests;

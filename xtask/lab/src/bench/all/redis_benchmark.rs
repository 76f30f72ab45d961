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
mod tests {
    use super::*;

    const HEAD: &str = r#""test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms""#;

    #[test]
    fn the_row_is_read_by_the_names_in_the_head() {
        let text = format!(
            "{HEAD}\n\"GET a\",\"75187.97\",\"0.34\",\"0.1\",\"0.33\",\"0.5\",\"0.6\",\"1.0\"\n"
        );
        assert_eq!(read(&text).unwrap(), Row { rate: 75_187.97, p50: 0.33 });
    }

    #[test]
    fn a_command_may_have_commas_and_quotes_in_it() {
        assert_eq!(fields(r#""a,b","c""d",e"#), ["a,b", "c\"d", "e"]);
        assert_eq!(fields(""), [""]);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        assert!(read("").is_err());
        assert!(read("Error from server: ERR unknown command").is_err());
        assert!(read(HEAD).is_err());
        assert!(read("\"test\",\"rps\"\n\"GET\",\"5\"").is_err());
        assert!(
            read(&format!("{HEAD}\n\"GET\",\"x\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\"")).is_err()
        );
    }
}

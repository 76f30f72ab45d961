//! A strict reader of structured-field lists (RFC 9651), as far as these fields use them: strings
//! with integer parameters. It accepts nothing else.

/// A member of a list: its string, and its parameters in order.
pub(super) type Member = (String, Vec<(String, u64)>);

/// The members, or where and why it is not such a list.
pub(super) fn parse_list(text: &str) -> Result<Vec<Member>, String> {
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    let mut members = Vec::new();
    loop {
        members.push(reader.member()?);
        reader.blanks();
        match reader.next() {
            None => return Ok(members),
            Some(b',') => reader.blanks(),
            Some(other) => return reader.refuse(&format!("{:?} behind a member", other as char)),
        }
        if reader.peek().is_none() {
            return reader.refuse("a comma at the end");
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn member(&mut self) -> Result<Member, String> {
        let name = self.string()?;
        let mut parameters = Vec::new();
        while self.peek() == Some(b';') {
            self.at += 1;
            let key = self.key()?;
            if self.next() != Some(b'=') {
                return self.refuse("a parameter without a value");
            }
            if parameters.iter().any(|(other, _)| *other == key) {
                return self.refuse("a parameter twice");
            }
            parameters.push((key, self.integer()?));
        }
        Ok((name, parameters))
    }

    fn string(&mut self) -> Result<String, String> {
        if self.next() != Some(b'"') {
            return self.refuse("no string");
        }
        let mut string = String::new();
        loop {
            match self.next() {
                Some(b'"') => return Ok(string),
                Some(b'\\') => match self.next() {
                    Some(escaped @ (b'"' | b'\\')) => string.push(escaped.into()),
                    _ => return self.refuse("a wrong escape"),
                },
                Some(printable @ 0x20..=0x7e) => string.push(printable.into()),
                _ => return self.refuse("no end of the string, or what cannot stand in one"),
            }
        }
    }

    fn key(&mut self) -> Result<String, String> {
        let key = self.take_while(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
        if key.starts_with(|c: char| c.is_ascii_lowercase()) {
            Ok(key)
        } else {
            self.refuse("no key")
        }
    }

    fn integer(&mut self) -> Result<u64, String> {
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if digits.len() > 15 || digits.len() > 1 && digits.starts_with('0') {
            return self.refuse("not an integer in its one spelling");
        }
        digits.parse().or_else(|_| self.refuse("no integer"))
    }

    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) -> String {
        let start = self.at;
        while self.peek().is_some_and(&is_part) {
            self.at += 1;
        }
        String::from_utf8_lossy(&self.text[start..self.at]).into_owned()
    }

    fn blanks(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn refuse<T>(&self, why: &str) -> Result<T, String> {
        Err(format!("{why} at {} of {:?}", self.at, String::from_utf8_lossy(self.text)))
    }
}

//! Octets as hexadecimal digits.

/// Returns the digits, in lower case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the octets of pairs of digits; `None` if there is anything else.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    Some(digits?.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_and_decodes_hexadecimal() {
        assert_eq!(unhex(&hex(&[0, 1, 0x7f, 0xff])), Some(vec![0, 1, 0x7f, 0xff]));
        assert_eq!(unhex("0g"), None);
    }
}

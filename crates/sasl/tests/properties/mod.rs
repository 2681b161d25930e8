//! What holds for any octets: the fuzz target and the replay of its corpus check the same.

use sasl::scram::{Client, ClientFirst, Exchange};
use sasl::{Hash, Plain, ScramKeys};

/// Any octets as each message of SASL: nothing panics, what is read is bounded, and only a proof of the password ends
/// an exchange.
pub(crate) fn sasl(bytes: &[u8]) {
    if let Ok(plain) = Plain::parse(bytes) {
        assert!(!plain.authentication.is_empty() && !plain.password.is_empty());
        let again = [plain.authorization.as_bytes(), plain.authentication.as_bytes(), plain.password];
        assert_eq!(again.join(&0), bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Some(keys) = ScramKeys::parse(text) {
            assert_eq!(ScramKeys::parse(&keys.text()), Some(keys));
        }
        // A server that says anything.
        let (client, _) = Client::begin(Hash::Sha256, "user", "nonce", None);
        if text.split("i=").nth(1).and_then(|rest| rest.parse::<u32>().ok()).is_none_or(|count| count < 100) {
            let _ = client.finish(text, "password", &mut None);
        }
    }
    let keys = || ScramKeys::of_nobody(Hash::Sha256, b"secret", "user", 4_096);
    if let Ok(first) = ClientFirst::parse(bytes) {
        assert!(!first.name.is_empty());
        let (exchange, challenge) = Exchange::begin(&first, keys(), "server");
        assert!(challenge.starts_with("r="));
        assert!(exchange.finish(bytes, b"").is_err());
    }
    if let Ok(first) = ClientFirst::parse(b"n,,n=user,r=client") {
        let (exchange, _) = Exchange::begin(&first, keys(), "server");
        assert!(exchange.finish(bytes, b"").is_err(), "nobody has these keys");
    }
}

//! The exchange of SCRAM (RFC 5802 section 5). The client and the server send two messages each.
//!
//! ```text
//! client first   n,,n=user,r=CLIENT
//! server first   r=CLIENTSERVER,s=SALT,i=4096
//! client final   c=biws,r=CLIENTSERVER,p=PROOF
//! server final   v=SIGNATURE
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq as _;

use crate::limits::{ITERATIONS_MAX, MESSAGE_SIZE_MAX, NAME_SIZE_MAX, NONCE_SIZE_MAX, SALT_SIZE_MAX};
use crate::{Hash, SaslError, ScramKeys};

/// The channel binding that a client requests (RFC 5802 section 7, gs2-cbind-flag).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding<'a> {
    /// The client does not support channel binding.
    None,
    /// The client supports channel binding, but has found no mechanism with channel binding among the mechanisms of the
    /// server.
    NotOffered,
    /// The client uses the channel binding of this type.
    Type(&'a str),
}

/// The first message of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFirst<'a> {
    /// The channel binding that the client requests.
    pub binding: Binding<'a>,
    /// Authorization identity that the client requests. It is empty if the client requests none.
    pub authorization: String,
    /// Name of the user.
    pub name: String,
    header: &'a str,
    bare: &'a str,
    nonce: &'a str,
}

impl<'a> ClientFirst<'a> {
    /// Parses the message.
    ///
    /// # Errors
    /// The message is malformed, or contains a mandatory extension.
    pub fn parse(message: &'a [u8]) -> Result<ClientFirst<'a>, SaslError> {
        let malformed = SaslError::Malformed;
        if message.len() > MESSAGE_SIZE_MAX {
            return Err(malformed("it is too long"));
        }
        let text = std::str::from_utf8(message).map_err(|_| malformed("it is not UTF-8"))?;
        let mut parts = text.splitn(3, ',');
        let (Some(flag), Some(authorization), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(malformed("it begins with n,, or y,, or p=TYPE,,"));
        };
        let binding = match flag {
            "n" => Binding::None,
            "y" => Binding::NotOffered,
            _ => match flag.strip_prefix("p=") {
                Some(kind) if !kind.is_empty() => Binding::Type(kind),
                _ => return Err(malformed("it begins with n,, or y,, or p=TYPE,,")),
            },
        };
        let authorization = match authorization.strip_prefix("a=") {
            Some(name) => sasl_name(name)?,
            None if authorization.is_empty() => String::new(),
            None => return Err(malformed("a= expected")),
        };
        let header = text.get(..text.len() - bare.len()).unwrap_or_default();
        check_extensions(bare)?;
        let mut fields = bare.split(',');
        let name =
            fields.next().and_then(|field| field.strip_prefix("n=")).ok_or(malformed("n= expected"))?;
        let nonce =
            fields.next().and_then(|field| field.strip_prefix("r=")).ok_or(malformed("r= expected"))?;
        check_nonce(nonce)?;
        let name = sasl_name(name)?;
        if name.is_empty() {
            return Err(malformed("the name is empty"));
        }
        Ok(ClientFirst { binding, authorization, name, header, bare, nonce })
    }
}

/// Returns an error if a message contains a mandatory extension (RFC 5802 section 5.1). Other extensions are ignored.
fn check_extensions(fields: &str) -> Result<(), SaslError> {
    match fields.split(',').any(|field| field.starts_with("m=")) {
        true => Err(SaslError::MandatoryExtension),
        false => Ok(()),
    }
}

fn check_nonce(nonce: &str) -> Result<(), SaslError> {
    let is_printable = nonce.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    if nonce.is_empty() || nonce.len() > NONCE_SIZE_MAX || !is_printable {
        return Err(SaslError::Malformed("a nonce is printable, and not too long"));
    }
    Ok(())
}

/// Decodes the escaped characters in a saslname (RFC 5802 section 5.1).
pub(crate) fn sasl_name(text: &str) -> Result<String, SaslError> {
    let malformed = SaslError::Malformed("in a name, = stands before 2C or 3D, and it is not too long");
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('=') {
        name.push_str(before);
        rest = match (behind.strip_prefix("2C"), behind.strip_prefix("3D")) {
            (Some(rest), _) => {
                name.push(',');
                rest
            }
            (_, Some(rest)) => {
                name.push('=');
                rest
            }
            _ => return Err(malformed),
        };
    }
    name.push_str(rest);
    if name.len() > NAME_SIZE_MAX || name.contains('\0') { Err(malformed) } else { Ok(name) }
}

/// Escapes a name so that a message can contain it.
fn escaped(name: &str) -> String {
    name.replace('=', "=3D").replace(',', "=2C")
}

/// The server's state between its first and its final message.
#[derive(Debug)]
pub struct Exchange {
    keys: ScramKeys,
    /// The value that the field `c=` must begin with. The channel's data follows it.
    header: String,
    nonce: String,
    /// The client's and the server's first messages. The proof is computed from them.
    said: String,
}

impl Exchange {
    /// Starts the exchange with a client. Returns the exchange and the server's first message. `nonce` must be unique
    /// and printable, and must not contain a comma.
    pub fn begin(first: &ClientFirst<'_>, keys: ScramKeys, nonce: &str) -> (Exchange, String) {
        let nonce = format!("{}{nonce}", first.nonce);
        let answer = format!("r={nonce},s={},i={}", STANDARD.encode(&keys.salt), keys.iterations);
        let said = format!("{},{answer}", first.bare);
        (Exchange { keys, header: first.header.to_owned(), nonce, said }, answer)
    }

    /// Verifies the client's final message. Returns the server's final message. `channel` is the data of the channel
    /// binding that the client uses. `channel` is empty if the client uses no channel binding.
    ///
    /// # Errors
    /// The message is malformed or belongs to another exchange or channel, or its proof is wrong.
    pub fn finish(self, message: &[u8], channel: &[u8]) -> Result<String, SaslError> {
        let malformed = SaslError::Malformed;
        let text = std::str::from_utf8(message).map_err(|_| malformed("it is not UTF-8"))?;
        if message.len() > MESSAGE_SIZE_MAX {
            return Err(malformed("it is too long"));
        }
        check_extensions(text)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(malformed("p= expected"))?;
        let proof = STANDARD.decode(proof).map_err(|_| malformed("the proof is not base64"))?;
        let mut fields = without_proof.split(',');
        let bound =
            fields.next().and_then(|field| field.strip_prefix("c=")).ok_or(malformed("c= expected"))?;
        let nonce =
            fields.next().and_then(|field| field.strip_prefix("r=")).ok_or(malformed("r= expected"))?;
        let bound = STANDARD.decode(bound).map_err(|_| malformed("c= is not base64"))?;
        let expected = [self.header.as_bytes(), channel].concat();
        let is_here = bool::from(bound.ct_eq(&expected)) && nonce == self.nonce;
        let said = format!("{},{without_proof}", self.said);
        let ScramKeys { hash, stored_key, server_key, .. } = &self.keys;
        let signature = hash.hmac(stored_key, said.as_bytes());
        if !is_here || proof.len() != signature.len() {
            return Err(SaslError::WrongProof);
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        if !bool::from(hash.digest(&client_key).ct_eq(stored_key)) {
            return Err(SaslError::WrongProof);
        }
        Ok(format!("v={}", STANDARD.encode(hash.hmac(server_key, said.as_bytes()))))
    }
}

/// A client of SCRAM. Intended for tests and load generators.
#[derive(Debug)]
pub struct Client {
    hash: Hash,
    header: String,
    channel: Vec<u8>,
    bare: String,
    nonce: String,
}

/// Keys that a client can store in place of the password. They are valid until the salt or the iteration count changes.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientKeys {
    salt: Vec<u8>,
    iterations: u32,
    salted: Vec<u8>,
}

impl Client {
    /// Creates a client. Returns the client and its first message. `channel` contains the type and the data of the
    /// channel binding.
    pub fn begin(hash: Hash, name: &str, nonce: &str, channel: Option<(&str, &[u8])>) -> (Client, String) {
        let header = channel.map_or("n,,".to_owned(), |(kind, _)| format!("p={kind},,"));
        let bare = format!("n={},r={nonce}", escaped(name));
        let first = format!("{header}{bare}");
        let channel = channel.map(|(_, data)| data.to_vec()).unwrap_or_default();
        (Client { hash, header, channel, bare, nonce: nonce.to_owned() }, first)
    }

    /// Returns the client's final message and the final message that the server must send. `kept` contains the keys
    /// from an earlier exchange, and receives the keys of this exchange.
    ///
    /// # Errors
    /// The server's message is malformed, belongs to another client, requires too many iterations, or contains a salt
    /// that is too long.
    pub fn finish(
        self,
        server_first: &str,
        password: &str,
        kept: &mut Option<ClientKeys>,
    ) -> Result<(String, String), SaslError> {
        let malformed = SaslError::Malformed("r=, s= and i= expected");
        check_extensions(server_first)?;
        let mut fields = server_first.split(',');
        let mut field =
            |name: &str| fields.next().and_then(|field| field.strip_prefix(name)).ok_or(malformed);
        let (nonce, salt, iterations) = (field("r=")?, field("s=")?, field("i=")?);
        let salt = STANDARD.decode(salt).map_err(|_| malformed)?;
        let iterations: u32 = iterations.parse().map_err(|_| malformed)?;
        if !nonce.starts_with(&self.nonce) || iterations > ITERATIONS_MAX || salt.len() > SALT_SIZE_MAX {
            return Err(SaslError::WrongProof);
        }
        let salted = match kept {
            Some(keys) if keys.salt == salt && keys.iterations == iterations => keys.salted.clone(),
            _ => {
                let salted = self.hash.salted(password, &salt, iterations);
                *kept = Some(ClientKeys { salt, iterations, salted: salted.clone() });
                salted
            }
        };
        let client_key = self.hash.hmac(&salted, b"Client Key");
        let stored_key = self.hash.digest(&client_key);
        let bound = STANDARD.encode([self.header.as_bytes(), &self.channel].concat());
        let without_proof = format!("c={bound},r={nonce}");
        let said = format!("{},{server_first},{without_proof}", self.bare);
        let signature = self.hash.hmac(&stored_key, said.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let server_key = self.hash.hmac(&salted, b"Server Key");
        let expected = format!("v={}", STANDARD.encode(self.hash.hmac(&server_key, said.as_bytes())));
        Ok((format!("{without_proof},p={}", STANDARD.encode(proof)), expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples in RFC 5802 section 5 and RFC 7677 section 3.
    #[test]
    fn the_exchanges_of_the_rfcs_are_verified() {
        let cases = [
            (
                Hash::Sha1,
                "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
                "3rfcNHYJY1ZVvWVs7j",
                "QSXCR+Q6sek8bf92",
                "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
                "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
                "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
            ),
            (
                Hash::Sha256,
                "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
                "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
                "W22ZaJ0SNY7soEsUEjb6gQ==",
                "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
                "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                 p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
                "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            ),
        ];
        for (hash, client_first, nonce, salt, server_first, client_final, server_final) in cases {
            let keys = ScramKeys::derive(hash, "pencil", &STANDARD.decode(salt).unwrap(), 4_096);
            let first = ClientFirst::parse(client_first.as_bytes()).unwrap();
            assert_eq!((first.name.as_str(), first.binding), ("user", Binding::None));
            let (exchange, said) = Exchange::begin(&first, keys, nonce);
            assert_eq!(said, server_first);
            assert_eq!(exchange.finish(client_final.as_bytes(), b"").as_deref(), Ok(server_final));
            // The client of this crate sends the same messages.
            let (client, said) = Client::begin(hash, "user", first.nonce, None);
            assert_eq!(said, client_first);
            let mut kept = None;
            let finished = client.finish(server_first, "pencil", &mut kept).unwrap();
            assert_eq!(finished, (client_final.to_owned(), server_final.to_owned()));
            assert!(kept.is_some());
        }
    }

    /// Runs an exchange between a client and a server. Returns the server's last message.
    fn exchange(
        password: &str,
        channel: Option<(&str, &[u8])>,
        seen: &[u8],
        change: fn(String) -> String,
    ) -> Result<String, SaslError> {
        let (client, first) = Client::begin(Hash::Sha512, "a=b,c", "clientnonce", channel);
        let keys = ScramKeys::derive(Hash::Sha512, "geheim\u{a0}1", b"salt of it", 100);
        let first = ClientFirst::parse(first.as_bytes()).unwrap();
        assert_eq!(first.name, "a=b,c");
        let (server, said) = Exchange::begin(&first, keys, "servernonce");
        let (last, expected) = client.finish(&said, password, &mut None).unwrap();
        let answer = server.finish(change(last).as_bytes(), seen)?;
        assert_eq!(answer, expected);
        Ok(answer)
    }

    #[test]
    fn only_the_right_proof_for_this_channel_is_accepted() {
        let same = |text| text;
        // SASLprep replaces a no-break space by a space.
        assert!(exchange("geheim 1", None, b"", same).is_ok());
        assert!(exchange("geheim\u{a0}1", Some(("tls-exporter", b"here")), b"here", same).is_ok());
        let wrong = Err(SaslError::WrongProof);
        assert_eq!(exchange("geheim 2", None, b"", same), wrong);
        assert_eq!(exchange("geheim 1", Some(("tls-exporter", b"here")), b"there", same), wrong);
        assert_eq!(exchange("geheim 1", None, b"here", same), wrong);
        assert_eq!(exchange("geheim 1", None, b"", |text| text.replace("servernonce", "other")), wrong);
        assert_eq!(exchange("geheim 1", None, b"", |text| text.replace("c=biws", "c=eSws")), wrong);
        assert_eq!(exchange("geheim 1", None, b"", |text| text.replace(",p=", ",p=AAAA")), wrong);
        for change in [
            (|text: String| text.replace(",p=", ",m=x,p=")) as fn(String) -> String,
            |text| format!("m=x,{text}"),
            |text| format!("{text},m=x"),
        ] {
            assert_eq!(exchange("geheim 1", None, b"", change), Err(SaslError::MandatoryExtension));
        }
        assert_eq!(exchange("geheim 1", None, b"", |text| text.replace(",p=", ",f=x,p=")), wrong);
        for change in [
            (|_| String::new()) as fn(String) -> String,
            |text| text.replace(",p=", ","),
            |text| text.replace("c=", "x="),
            |text| text.replace(",r=", ",q="),
            |text| format!("{text}!"),
        ] {
            assert!(matches!(exchange("geheim 1", None, b"", change), Err(SaslError::Malformed(_))));
        }
    }

    #[test]
    fn first_messages_are_parsed_or_refused() {
        let long = format!("n,,n={},r=x", "a".repeat(2_000));
        let nonce = format!("n,,n=a,r={}", "x".repeat(600));
        for bad in [
            "",
            "n",
            "n,,",
            "n,,n=,r=x",
            "n,,n=a",
            "n,,n=a,r=",
            "n,,r=x,n=a",
            "x,,n=a,r=x",
            "p=,,n=a,r=x",
            "n,b=c,n=a,r=x",
            "n,,n=a=2,r=x",
            "n,,n=a=,r=x",
            "n,,n=a,r=\u{7f}",
            "n,,n=a\0,r=x",
            &long,
            &nonce,
        ] {
            assert!(ClientFirst::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        for mandatory in
            ["n,,m=x,n=a,r=x", "n,,m=,n=a,r=x", "n,,n=a,m=x,r=x", "n,,n=a,r=x,m=x", "n,,n=a,r=x,f=y,m=x"]
        {
            let parsed = ClientFirst::parse(mandatory.as_bytes());
            assert_eq!(parsed, Err(SaslError::MandatoryExtension), "{mandatory}");
        }
        let (client, _) = Client::begin(Hash::Sha1, "a", "x", None);
        let finished = client.finish("m=x,r=xy,s=QQ==,i=4096", "secret", &mut None);
        assert_eq!(finished, Err(SaslError::MandatoryExtension));
        assert!(ClientFirst::parse(b"\xff,,n=a,r=x").is_err());
        let first = ClientFirst::parse(b"p=tls-exporter,a=o=2Cp,n=q=3D,r=x,f=later").unwrap();
        assert_eq!(first.binding, Binding::Type("tls-exporter"));
        assert_eq!((first.authorization.as_str(), first.name.as_str()), ("o,p", "q="));
        assert_eq!(ClientFirst::parse(b"y,,n=a,r=x").unwrap().binding, Binding::NotOffered);
    }
}

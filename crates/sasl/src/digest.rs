//! DIGEST-MD5 (RFC 2831). RFC 6331 has made this mechanism historic. Pando supports it for clients that support no
//! better mechanism.
//!
//! The server stores the key H(user:realm:password). Therefore a key is valid only for one spelling of the user name
//! and one realm. The key is sufficient for a bind without the password. Only `qop=auth` is offered, because TLS
//! protects the connection and no security layer of the mechanism is necessary. A nonce can be used only once.
//! Therefore every exchange is an initial authentication (section 2.1).
//!
//! The service in the client's digest-uri is checked, but the host is not. The server does not know all names and
//! addresses by which clients reach it, for example those of load balancers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use subtle::ConstantTimeEq as _;

use crate::SaslError;
use crate::limits::{DIGEST_MESSAGE_SIZE_MAX, NAME_SIZE_MAX, NONCE_SIZE_MAX};

/// Name of the mechanism.
pub const DIGEST_MD5: &str = "DIGEST-MD5";

/// The service of an LDAP server in a digest-uri (RFC 2831 section 2.1.2).
pub const LDAP_SERVICE: &str = "ldap";

/// The nonce count of an initial authentication.
const FIRST_USE: &[u8] = b"00000001";

/// Directives that a response may contain once each. All other directives are extensions and are ignored.
const DIRECTIVES: [&str; 12] = [
    "username",
    "realm",
    "nonce",
    "cnonce",
    "nc",
    "qop",
    "digest-uri",
    "response",
    "maxbuf",
    "charset",
    "cipher",
    "authzid",
];

/// The name and the value of a directive.
type Directive<'a> = (&'a [u8], Vec<u8>);

/// The key that a server derives from a password and stores. It is valid for one name in one realm.
#[derive(Clone, PartialEq, Eq)]
pub struct DigestKey {
    name: String,
    realm: String,
    secret: [u8; 16],
}

/// Does not show the key.
impl std::fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DigestKey").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DigestKey {
    /// Derives the key from a password. The realm must not contain `$`.
    pub fn derive(name: &str, realm: &str, password: &str) -> DigestKey {
        let hashed = [&*hashed_form(name), b":", realm.as_bytes(), b":", &*hashed_form(password)];
        DigestKey { name: name.to_owned(), realm: realm.to_owned(), secret: md5(&hashed) }
    }

    /// Returns true if the key is valid for this spelling of the name in this realm.
    pub fn is_for(&self, name: &str, realm: &str) -> bool {
        self.name == name && self.realm == realm
    }

    /// Returns the key as text: `DIGEST-MD5$`, the key in base64, `$`, the realm, `$`, the name.
    pub fn text(&self) -> String {
        format!("{DIGEST_MD5}${}${}${}", STANDARD.encode(self.secret), self.realm, self.name)
    }

    /// Parses the text of a key. Returns `None` if `text` is not a key.
    pub fn parse(text: &str) -> Option<DigestKey> {
        let mut parts = text.splitn(4, '$');
        let (scheme, secret, realm, name) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let secret = STANDARD.decode(secret).ok().filter(|_| scheme.eq_ignore_ascii_case(DIGEST_MD5))?;
        Some(DigestKey {
            name: name.to_owned(),
            realm: realm.to_owned(),
            secret: secret.as_slice().try_into().ok()?,
        })
    }
}

/// The server's state after it has sent the challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    realm: String,
    nonce: String,
}

impl Exchange {
    /// Starts an exchange. Returns the exchange and the challenge. `nonce` must be unique. Neither argument may contain
    /// `"`, `\` or a control character.
    pub fn begin(realm: &str, nonce: &str) -> (Exchange, String) {
        let challenge =
            format!("realm=\"{realm}\",nonce=\"{nonce}\",qop=\"auth\",charset=utf-8,algorithm=md5-sess");
        (Exchange { realm: realm.to_owned(), nonce: nonce.to_owned() }, challenge)
    }

    /// Returns the realm in the challenge.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// Verifies a response with the key of the user that the response names. Returns the message with which the server
    /// proves that the server has the key. If `key` is `None`, the function takes the same time and fails.
    ///
    /// # Errors
    /// The response proves a different password, or belongs to another exchange or realm.
    pub fn finish(&self, response: &Response, key: Option<&DigestKey>) -> Result<String, SaslError> {
        let secret = key.map_or([0; 16], |key| key.secret);
        let is_right: bool = response.digest(&secret, "AUTHENTICATE").ct_eq(&response.proof).into();
        let is_here = response.nonce == self.nonce.as_bytes()
            && response.realm == self.realm
            && key.is_some_and(|key| key.is_for(&response.name, &self.realm));
        match is_right && is_here {
            true => Ok(format!("rspauth={}", text_of(&response.digest(&secret, "")))),
            false => Err(SaslError::WrongProof),
        }
    }
}

/// The response of the client to the challenge. It does not implement `Debug`, because it proves a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    /// Name of the user.
    pub name: String,
    /// Authorization identity that the client requests. It is empty if the client requests none.
    pub authorization: String,
    realm: String,
    nonce: Vec<u8>,
    client_nonce: Vec<u8>,
    uri: Vec<u8>,
    /// The octets of the authorization identity that are hashed; `None` if the client sent no identity.
    authorization_octets: Option<Vec<u8>>,
    proof: [u8; 32],
}

impl Response {
    /// Parses a response (RFC 2831 section 2.1.2). Values may be with or without quotation marks, because clients
    /// differ in this for `qop`.
    ///
    /// # Errors
    /// The message is malformed, lacks a directive, contains a directive twice, or requests something that is not
    /// supported: a security layer, another service, or the second use of a nonce.
    pub fn parse(message: &[u8], service: &str) -> Result<Response, SaslError> {
        let malformed = SaslError::Malformed;
        if message.len() > DIGEST_MESSAGE_SIZE_MAX {
            return Err(malformed("it is too long"));
        }
        let mut values: [Option<Vec<u8>>; DIRECTIVES.len()] = Default::default();
        let mut rest = message;
        while let Some((name, value)) = next_directive(&mut rest)? {
            let known = DIRECTIVES.iter().zip(&mut values);
            let known = known.into_iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
            match known {
                Some((_, Some(_))) => return Err(malformed("a directive is there twice")),
                Some((_, absent)) => *absent = Some(value),
                None => {}
            }
        }
        let [name, realm, nonce, client_nonce, count, qop, uri, proof, _, charset, _, authorization] = values;
        let is_utf8 = match charset.as_deref() {
            None => false,
            Some(charset) if charset.eq_ignore_ascii_case(b"utf-8") => true,
            Some(_) => return Err(malformed("its charset is not utf-8")),
        };
        if qop.is_some_and(|qop| !qop.eq_ignore_ascii_case(b"auth")) {
            return Err(SaslError::NotOffered("only qop=auth is offered: TLS is there for the rest"));
        }
        if count.as_deref() != Some(FIRST_USE) {
            return Err(malformed("nc is 00000001: a nonce is good once"));
        }
        let needed = |value: Option<Vec<u8>>, size_max: usize, what| {
            value.filter(|value| !value.is_empty() && value.len() <= size_max).ok_or(malformed(what))
        };
        let name = needed(name, NAME_SIZE_MAX, "username is missing, empty or too long")?;
        let client_nonce = needed(client_nonce, NONCE_SIZE_MAX, "cnonce is missing, empty or too long")?;
        let nonce = needed(nonce, NONCE_SIZE_MAX, "nonce is missing, empty or too long")?;
        let uri = needed(uri, NAME_SIZE_MAX, "digest-uri is missing, empty or too long")?;
        if !names_service(&uri, service) {
            return Err(malformed("digest-uri does not name this service and a host"));
        }
        let proof: Option<[u8; 32]> = proof.and_then(|proof| proof.try_into().ok());
        let proof = proof.filter(|proof| proof.iter().all(u8::is_ascii_hexdigit));
        let mut proof = proof.ok_or(malformed("response has 32 hexadecimal digits"))?;
        proof.make_ascii_lowercase();
        let text = |octets: &[u8]| match is_utf8 {
            true => String::from_utf8(octets.to_vec()).map_err(|_| malformed("a value is not UTF-8")),
            false => Ok(octets.iter().copied().map(char::from).collect()),
        };
        let authorization_octets = match authorization {
            Some(of) => Some(needed(Some(of), NAME_SIZE_MAX, "authzid is empty or too long")?),
            None => None,
        };
        Ok(Response {
            name: text(&name)?,
            authorization: text(authorization_octets.as_deref().unwrap_or_default())?,
            realm: text(&realm.unwrap_or_default())?,
            nonce,
            client_nonce,
            uri,
            authorization_octets,
            proof,
        })
    }

    /// Computes a digest (RFC 2831 section 2.1.2.1) with the secret of a key. If `method` is empty, the result is the
    /// digest of the server's proof (section 2.1.3). Otherwise the result is the client's digest.
    fn digest(&self, secret: &[u8; 16], method: &str) -> [u8; 32] {
        let session: [&[u8]; 5] = [secret, b":", &self.nonce, b":", &self.client_nonce];
        let session = match &self.authorization_octets {
            Some(of) => md5(&[&session[..], &[b":", of.as_slice()]].concat()),
            None => md5(&session),
        };
        let request = md5(&[method.as_bytes(), b":", &self.uri]);
        digits(&md5(&[
            &digits(&session),
            b":",
            &self.nonce,
            b":",
            FIRST_USE,
            b":",
            &self.client_nonce,
            b":auth:",
            &digits(&request),
        ]))
    }
}

/// Removes the next directive from the beginning of a list (RFC 2831 section 7.1). Elements of the list may be empty,
/// and white space may be between them.
fn next_directive<'a>(rest: &mut &'a [u8]) -> Result<Option<Directive<'a>>, SaslError> {
    let malformed = SaslError::Malformed;
    let is_space = |octet: &u8| matches!(octet, b' ' | b'\t' | b'\r' | b'\n');
    let skip = |rest: &mut &'a [u8], is: &dyn Fn(&u8) -> bool| {
        let length = rest.iter().take_while(|octet| is(octet)).count();
        let (taken, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        *rest = behind;
        taken
    };
    skip(rest, &|octet| is_space(octet) || *octet == b',');
    if rest.is_empty() {
        return Ok(None);
    }
    let name = skip(rest, &is_token);
    skip(rest, &is_space);
    let behind = rest.strip_prefix(b"=").filter(|_| !name.is_empty());
    *rest = behind.ok_or(malformed("names of directives and = expected"))?;
    skip(rest, &is_space);
    let value = match rest.strip_prefix(b"\"") {
        Some(quoted) => {
            *rest = quoted;
            quoted_value(rest)?
        }
        None => skip(rest, &is_token).to_vec(),
    };
    skip(rest, &is_space);
    match rest.first() {
        None | Some(b',') => Ok(Some((name, value))),
        Some(_) => Err(malformed("a comma expected after a directive")),
    }
}

/// Removes the rest of a quoted string. The first quotation mark is already removed.
fn quoted_value(rest: &mut &[u8]) -> Result<Vec<u8>, SaslError> {
    let mut value = Vec::new();
    let mut octets = rest.iter();
    loop {
        match octets.next() {
            Some(b'"') => break,
            Some(b'\\') => value.extend(octets.next()),
            Some(octet) => value.push(*octet),
            None => return Err(SaslError::Malformed("a quoted string has no end")),
        }
    }
    *rest = octets.as_slice();
    match value.iter().any(u8::is_ascii_control) {
        true => Err(SaslError::Malformed("a control character in a quoted string")),
        false => Ok(value),
    }
}

/// Returns true if a token may contain this octet (RFC 2831 section 7.1).
fn is_token(octet: &u8) -> bool {
    octet.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(octet)
}

/// Returns true if a digest-uri consists of `SERVICE/HOST`. The name of a replicated service may follow.
fn names_service(uri: &[u8], service: &str) -> bool {
    let mut parts = uri.split(|octet| *octet == b'/');
    let is_service = parts.next().is_some_and(|first| first.eq_ignore_ascii_case(service.as_bytes()));
    is_service && parts.next().is_some_and(|host| !host.is_empty()) && parts.nth(1).is_none()
}

/// Returns the octets of a text that are hashed. The encoding is ISO 8859-1 if ISO 8859-1 contains all characters of
/// the text, otherwise UTF-8 (RFC 2831 section 2.1.2.1).
fn hashed_form(text: &str) -> Vec<u8> {
    let latin: Option<Vec<u8>> = text.chars().map(|letter| u8::try_from(letter).ok()).collect();
    latin.unwrap_or_else(|| text.as_bytes().to_vec())
}

fn md5(parts: &[&[u8]]) -> [u8; 16] {
    parts.iter().fold(Md5::new(), |hash, part| hash.chain_update(part)).finalize().into()
}

fn digits(digest: &[u8; 16]) -> [u8; 32] {
    let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
    let mut digits = [0; 32];
    for (pair, octet) in digits.chunks_exact_mut(2).zip(digest) {
        pair.iter_mut().zip([octet >> 4, octet & 15]).for_each(|(of, value)| *of = digit(value));
    }
    digits
}

fn text_of(digits: &[u8; 32]) -> String {
    digits.iter().copied().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in RFC 2831 section 4.
    const REALM: &str = "elwood.innosoft.com";
    const IMAP: &str = "charset=utf-8,username=\"chris\",realm=\"elwood.innosoft.com\",nonce=\"OA6MG9tEQGm2hh\",\
        nc=00000001,cnonce=\"OA6MHXh6VqTrRk\",digest-uri=\"imap/elwood.innosoft.com\",\
        response=d388dad90d4bbd760a152321f2143af7,qop=auth";
    const ACAP: &str = "charset=utf-8,username=\"chris\",realm=\"elwood.innosoft.com\",nonce=\"OA9BSXrbuRhWay\",\
        nc=00000001,cnonce=\"OA9BSuZWMSpW8m\",digest-uri=\"acap/elwood.innosoft.com\",\
        response=6084c6db3fede7352c551284490fd0fc,qop=auth";

    fn parse(message: &str) -> Result<Response, SaslError> {
        Response::parse(message.as_bytes(), "imap")
    }

    #[test]
    fn the_exchanges_of_the_rfc_are_verified() {
        let key = DigestKey::derive("chris", REALM, "secret");
        assert_eq!(DigestKey::parse(&key.text()), Some(key.clone()));
        for (service, nonce, said, expected) in [
            ("imap", "OA6MG9tEQGm2hh", IMAP, "rspauth=ea40f60335c427b5527b84dbabcdfffd"),
            ("acap", "OA9BSXrbuRhWay", ACAP, "rspauth=2f0b3d7c3c2e486600ef710726aa2eae"),
        ] {
            let (exchange, challenge) = Exchange::begin(REALM, nonce);
            let begins = format!("realm=\"{REALM}\",nonce=\"{nonce}\",qop=\"auth\",charset=utf-8");
            assert!(challenge.starts_with(&begins) && challenge.ends_with("algorithm=md5-sess"));
            let response = Response::parse(said.as_bytes(), service).ok().unwrap();
            assert_eq!((&*response.name, &*response.authorization), ("chris", ""));
            assert_eq!(exchange.finish(&response, Some(&key)), Ok(expected.to_owned()));
        }
    }

    #[test]
    fn a_proof_is_valid_for_one_password_exchange_and_realm() {
        let (exchange, _) = Exchange::begin(REALM, "OA6MG9tEQGm2hh");
        let key = DigestKey::derive("chris", REALM, "secret");
        let check = |exchange: &Exchange, said: &str, key: Option<&DigestKey>| {
            exchange.finish(&parse(said).ok().unwrap(), key).is_ok()
        };
        assert!(check(&exchange, IMAP, Some(&key)));
        // Hexadecimal digits may be capital letters (section 7.1). There may be white space and empty elements between
        // directives.
        let spelled = IMAP.replace("d388dad90d4bbd760a152321f2143af7", "D388DAD90D4BBD760A152321F2143AF7");
        assert!(check(&exchange, &spelled, Some(&key)));
        assert!(check(&exchange, &format!(", ,{}\t,", IMAP.replace(',', " ,\r\n ")), Some(&key)));
        assert!(check(&exchange, &IMAP.replace("qop=auth", "QOP=\"auth\",x-more=\"a, b\""), Some(&key)));
        assert!(check(&exchange, &IMAP.replace(",qop=auth", ""), Some(&key)));
        assert!(check(&exchange, &IMAP.replace("\"chris\"", "\"c\\hris\""), Some(&key)));

        assert!(!check(&exchange, IMAP, None));
        assert!(!check(&exchange, IMAP, Some(&DigestKey::derive("chris", REALM, "Secret"))));
        assert!(!check(&exchange, IMAP, Some(&DigestKey::derive("Chris", REALM, "secret"))));
        assert!(!check(&Exchange::begin(REALM, "OA6MG9tEQGm2hi").0, IMAP, Some(&key)));
        assert!(!check(&Exchange::begin("elwood", "OA6MG9tEQGm2hh").0, IMAP, Some(&key)));
        for (old, new) in [
            ("\"chris\"", "\"Chris\""),
            ("\"elwood.innosoft.com\"", "\"elwood\""),
            ("realm=\"elwood.innosoft.com\",", ""),
            ("OA6MG9tEQGm2hh", "OA6MG9tEQGm2hi"),
            ("OA6MHXh6VqTrRk", "OA6MHXh6VqTrRl"),
            ("imap/", "imap/x."),
            ("response=d", "response=e"),
            (",qop", ",authzid=\"u:chris\",qop"),
        ] {
            let said = IMAP.replace(old, new);
            assert!(said != IMAP && !check(&exchange, &said, Some(&key)), "{said}");
        }
    }

    /// Names and passwords are hashed in ISO 8859-1 if that is possible, whichever encoding the client uses.
    #[test]
    fn names_and_passwords_are_hashed_in_latin_1_if_possible() {
        let latin = DigestKey::derive("jörg", "r", "größe");
        assert_eq!(latin.secret, md5(&[b"j\xf6rg:r:gr\xf6\xdfe"]));
        let wide = DigestKey::derive("日$本", "r", "größe");
        assert_eq!(wide.secret, md5(&["日$本:r:gr".as_bytes(), b"\xf6\xdfe"]));
        assert_eq!(DigestKey::parse(&wide.text()), Some(wide));
        let rest = "nonce=\"n\",nc=00000001,cnonce=\"c\",digest-uri=\"imap/h\",\
            response=00000000000000000000000000000000";
        let in_utf8 = parse(&format!("charset=utf-8,username=\"jörg\",{rest}")).ok().unwrap();
        let octets = [b"username=\"j\xf6rg\",", rest.as_bytes()].concat();
        let in_latin = Response::parse(&octets, "imap").ok().unwrap();
        assert_eq!((&*in_utf8.name, &*in_latin.name), ("jörg", "jörg"));
        let broken = [b"charset=utf-8,username=\"j\xf6rg\",", rest.as_bytes()].concat();
        assert!(Response::parse(&broken, "imap").is_err());
    }

    #[test]
    fn the_proof_covers_the_authorization_identity() {
        let key = DigestKey::derive("chris", "r", "secret");
        let (exchange, _) = Exchange::begin("r", "n");
        let said = |proof: &str| {
            parse(&format!(
                "username=\"chris\",realm=\"r\",nonce=\"n\",nc=00000001,cnonce=\"c\",digest-uri=\"imap/h\",\
                authzid=\"u:bert\",response={proof}"
            ))
        };
        let response = said(&"0".repeat(32)).ok().unwrap();
        assert_eq!(response.authorization, "u:bert");
        assert_eq!(exchange.finish(&response, Some(&key)), Err(SaslError::WrongProof));
        // Each step of section 2.1.2.1 is computed separately.
        let session = md5(&[&key.secret, b":n:c:u:bert"]);
        let request = md5(&[b"AUTHENTICATE:imap/h"]);
        let proof = digits(&md5(&[&digits(&session), b":n:00000001:c:auth:", &digits(&request)]));
        let response = said(&text_of(&proof)).ok().unwrap();
        assert!(exchange.finish(&response, Some(&key)).is_ok());
    }

    #[test]
    fn malformed_responses_and_keys_are_refused() {
        let check = |said: &str, expected: &str| match parse(said) {
            Ok(_) => panic!("{said}"),
            Err(error) => assert!(error.to_string().contains(expected), "{said}: {error}"),
        };
        check("", "nc is");
        check("username", "= expected");
        check("=\"chris\"", "= expected");
        check("username=\"chris", "no end");
        check("username=\"chris\\", "no end");
        check("username=\"chris\"realm=\"x\"", "comma");
        check("username=\"ch\nris\"", "control");
        check(&format!("{IMAP},username=\"bert\""), "twice");
        check(&format!("{IMAP},MAXBUF=1,maxbuf=1"), "twice");
        for (old, new, expected) in [
            ("00000001", "00000002", "good once"),
            (",nc=00000001", "", "good once"),
            ("qop=auth", "qop=auth-conf", "only qop=auth"),
            ("charset=utf-8", "charset=utf-16", "charset"),
            ("username=\"chris\",", "", "username"),
            ("chris", "", "username"),
            ("cnonce=\"OA6MHXh6VqTrRk\",", "", "cnonce"),
            (",nonce=\"OA6MG9tEQGm2hh\"", "", "nonce"),
            ("digest-uri=\"imap/elwood.innosoft.com\",", "", "digest-uri"),
            ("imap/elwood", "ldap/elwood", "service"),
            ("imap/elwood.innosoft.com", "imap/", "service"),
            ("imap/elwood.innosoft.com", "imap", "service"),
            ("imap/elwood.innosoft.com", "imap/a/b/c", "service"),
            ("43af7", "43af", "32 hexadecimal"),
            ("43af7", "43afg", "32 hexadecimal"),
            (",qop", ",authzid=\"\",qop", "authzid"),
        ] {
            check(&IMAP.replace(old, new), expected);
        }
        check(&IMAP.replace("chris", &"c".repeat(NAME_SIZE_MAX + 1)), "username");
        check(&IMAP.replace("OA6MHXh6VqTrRk", &"c".repeat(NONCE_SIZE_MAX + 1)), "cnonce");
        check(&format!("{IMAP},x=\"{}\"", "x".repeat(DIGEST_MESSAGE_SIZE_MAX)), "too long");
        for bad in ["", "DIGEST-MD5", "DIGEST-MD5$AAAA$r$n", "DIGEST-MD5$!$r$n", "CRAM-MD5$AAAA$r$n"] {
            assert_eq!(DigestKey::parse(bad), None, "{bad}");
        }
        let text = DigestKey::derive("chris", "r", "secret").text();
        assert_eq!(DigestKey::parse(text.strip_suffix("$chris").unwrap()), None);
    }
}

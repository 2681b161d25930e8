//! Responses of the server, as owned values.

use ldap::{
    DecodeLimits, MessageId, PagedResults, PositionToken, ReceivedResult, Response, ResponseMessage,
    ResultCode, oids,
};

/// Limits on a server's messages. No useful message exceeds these limits.
pub(crate) const LIMITS: DecodeLimits = DecodeLimits {
    message_size_max: 1 << 30,
    element_count_max: 1 << 24,
    value_count_max: 1 << 28,
    ..DecodeLimits::AUTHENTICATED
};

/// A validated message of the server.
#[derive(Clone, PartialEq, Eq)]
pub struct Received {
    bytes: Vec<u8>,
}

impl Received {
    /// Validates a whole message.
    pub(crate) fn check(bytes: Vec<u8>) -> Result<Received, ldap::DecodeError> {
        ResponseMessage::decode(&bytes, &LIMITS)?;
        Ok(Received { bytes })
    }

    /// Returns the message.
    pub fn message(&self) -> ResponseMessage<'_> {
        ResponseMessage::decode(&self.bytes, &LIMITS).expect("checked when it was received")
    }

    /// Returns the id of the request that the message answers.
    pub fn id(&self) -> MessageId {
        self.message().id
    }

    /// Returns the result, if this message is a final response.
    pub fn outcome(&self) -> Option<Outcome> {
        self.message().response.result().map(Outcome::from)
    }

    /// Returns the octets on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for Received {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.message().fmt(formatter)
    }
}

/// Result of an operation (LDAPResult, RFC 4511 section 4.1.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The result code.
    pub code: ResultCode,
    /// DN of the lowest existing superior of the named entry, if the result code requires it.
    pub matched_dn: String,
    /// Human-readable diagnostic text.
    pub diagnostic: String,
    /// Referral URLs.
    pub referrals: Vec<String>,
}

impl Outcome {
    /// Returns true if the result code is success.
    pub fn is_success(&self) -> bool {
        self.code == ResultCode::SUCCESS
    }
}

impl From<&ReceivedResult<'_>> for Outcome {
    fn from(result: &ReceivedResult<'_>) -> Outcome {
        Outcome {
            code: result.code,
            matched_dn: result.matched_dn.to_owned(),
            diagnostic: result.diagnostic.to_owned(),
            referrals: result.referrals.iter().map(str::to_owned).collect(),
        }
    }
}

/// A search result entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// DN of the entry, in the server's spelling.
    pub dn: String,
    /// Attributes in the order sent.
    pub attributes: Vec<Attribute>,
}

/// An attribute with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The attribute description, in the server's spelling.
    pub description: String,
    /// The values, in the order sent.
    pub values: Vec<Vec<u8>>,
}

impl Entry {
    /// Returns the values of an attribute, by its description in any case; empty if there is no such attribute.
    pub fn values(&self, description: &str) -> &[Vec<u8>] {
        let mut attributes = self.attributes.iter();
        let found = attributes.find(|attribute| attribute.description.eq_ignore_ascii_case(description));
        found.map(|attribute| attribute.values.as_slice()).unwrap_or_default()
    }

    /// Returns the values of an attribute as text; octets that are not UTF-8 are replaced.
    pub fn texts(&self, description: &str) -> Vec<String> {
        self.values(description).iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }

    /// Returns the first value of an attribute as text.
    pub fn text(&self, description: &str) -> Option<String> {
        self.texts(description).into_iter().next()
    }
}

impl From<&ldap::SearchEntry<'_>> for Entry {
    fn from(entry: &ldap::SearchEntry<'_>) -> Entry {
        let attributes = entry.attributes.iter().map(|attribute| Attribute {
            description: attribute.description.to_owned(),
            values: attribute.values.iter().map(<[u8]>::to_vec).collect(),
        });
        Entry { dn: entry.object_name.to_owned(), attributes: attributes.collect() }
    }
}

/// All responses to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Entries, in the order sent.
    pub entries: Vec<Entry>,
    /// Continuation references, each a list of URLs.
    pub references: Vec<Vec<String>>,
    /// Name and value of an extended response.
    pub extended: ExtendedReply,
    /// Result of the operation.
    pub outcome: Outcome,
    /// The last message, with its controls.
    pub last: Option<Received>,
}

/// Contents of an extended response in addition to its result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtendedReply {
    /// The OID, if there is one.
    pub name: Option<String>,
    /// The value, if there is one.
    pub value: Option<Vec<u8>>,
}

impl Reply {
    /// Returns a reply that has only a result.
    pub fn from_outcome(outcome: Outcome) -> Reply {
        Reply {
            entries: Vec::new(),
            references: Vec::new(),
            extended: ExtendedReply::default(),
            outcome,
            last: None,
        }
    }

    /// Returns the server's paged results control (RFC 2696): an estimate of the number of all entries, and the cookie
    /// of the next page, which is empty after the last page. `None` if there is no such control.
    pub fn page(&self) -> Option<(u32, Vec<u8>)> {
        let control = self.last.as_ref()?.message().controls.find(oids::PAGED_RESULTS)?;
        let page = PagedResults::decode(control.value?)?;
        Some((page.size, page.cookie.to_vec()))
    }

    /// Returns the log position of the response, if the request asked for it.
    pub fn position(&self) -> Option<PositionToken> {
        let control = self.last.as_ref()?.message().controls.find(oids::POSITION)?;
        PositionToken::decode(control.value?)
    }

    /// Combines the messages of one request. The last message is the final response.
    pub(crate) fn gather(messages: Vec<Received>) -> Option<Reply> {
        let mut reply = Reply::from_outcome(messages.last()?.outcome()?);
        for received in &messages {
            match received.message().response {
                Response::SearchEntry(entry) => reply.entries.push(Entry::from(&entry)),
                Response::SearchReference(uris) => {
                    reply.references.push(uris.iter().map(str::to_owned).collect());
                }
                Response::Extended { name, value, .. } => {
                    let (name, value) = (name.map(str::to_owned), value.map(<[u8]>::to_vec));
                    reply.extended = ExtendedReply { name, value };
                }
                _ => {}
            }
        }
        reply.last = messages.into_iter().last();
        Some(reply)
    }
}

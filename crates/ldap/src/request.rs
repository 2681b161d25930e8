//! Operations that a client can request (RFC 4511 sections 4.2 to 4.14).

use ber::{Reader, Tag};

use crate::decode::{Body, BodyError, InComponent, string, text};
use crate::{AttributeSelection, Attributes, Changes, DecodeErrorKind, DecodeLimits, Filter, MessageId};

/// Tags of the operations that a client can request.
pub mod request_tag {
    use ber::Tag;

    /// BindRequest.
    pub const BIND: Tag = Tag::application_constructed(0);
    /// UnbindRequest.
    pub const UNBIND: Tag = Tag::application(2);
    /// SearchRequest.
    pub const SEARCH: Tag = Tag::application_constructed(3);
    /// ModifyRequest.
    pub const MODIFY: Tag = Tag::application_constructed(6);
    /// AddRequest.
    pub const ADD: Tag = Tag::application_constructed(8);
    /// DelRequest.
    pub const DELETE: Tag = Tag::application(10);
    /// ModifyDNRequest.
    pub const MODIFY_DN: Tag = Tag::application_constructed(12);
    /// CompareRequest.
    pub const COMPARE: Tag = Tag::application_constructed(14);
    /// AbandonRequest.
    pub const ABANDON: Tag = Tag::application(16);
    /// ExtendedRequest.
    pub const EXTENDED: Tag = Tag::application_constructed(23);
}

/// An operation. Every variant borrows the message and is cheap to copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// Authenticate.
    Bind(BindRequest<'a>),
    /// End the session.
    Unbind,
    /// Find entries.
    Search(SearchRequest<'a>),
    /// Change an entry's attributes.
    Modify(ModifyRequest<'a>),
    /// Add an entry.
    Add(AddRequest<'a>),
    /// Delete an entry.
    Delete(DeleteRequest<'a>),
    /// Rename or move an entry.
    ModifyDn(ModifyDnRequest<'a>),
    /// Test whether an entry has a value.
    Compare(CompareRequest<'a>),
    /// Abandon the request with this id. The id may be any number from 0 to maxInt, even if no request has this id.
    Abandon(MessageId),
    /// Extended operation, named by an OID.
    Extended(ExtendedRequest<'a>),
}

/// Bind (RFC 4511 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindRequest<'a> {
    /// Requested protocol version, 1 to 127. LDAPv3 is 3.
    pub version: i32,
    /// DN of the bind, unparsed; empty for anonymous and for most SASL mechanisms.
    pub name: &'a str,
    /// Method and credentials.
    pub authentication: Authentication<'a>,
}

/// The AuthenticationChoice of a bind. `Debug` does not show passwords and credentials.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// Password in clear text. An empty password means an anonymous bind if the name is empty, and otherwise the
    /// unauthenticated bind of RFC 4513 section 5.1.2.
    Simple(&'a [u8]),
    /// SASL mechanism and credentials. Absent and empty credentials differ (RFC 4513 section 5.2.1.2).
    Sasl {
        /// Name of the mechanism. An empty name aborts the current exchange.
        mechanism: &'a str,
        /// The client's message.
        credentials: Option<&'a [u8]>,
    },
    /// A choice that RFC 4511 does not define. The server answers with authMethodNotSupported and not with
    /// protocolError.
    Unrecognized(Tag),
}

/// Search (RFC 4511 section 4.5.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchRequest<'a> {
    /// Base DN of the search, unparsed.
    pub base_object: &'a str,
    /// Depth of the search below the base.
    pub scope: Scope,
    /// Aliases to follow.
    pub deref_aliases: DerefAliases,
    /// Maximum number of entries; 0 for no limit.
    pub size_limit: u32,
    /// Maximum time in seconds; 0 for no limit.
    pub time_limit_seconds: u32,
    /// Whether to return only attribute types, without values.
    pub types_only: bool,
    /// Condition that entries must match.
    pub filter: Filter<'a>,
    /// Attributes to return.
    pub attributes: AttributeSelection<'a>,
}

/// Depth of a search below its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The base itself.
    BaseObject,
    /// The base's children.
    SingleLevel,
    /// The base and everything below.
    WholeSubtree,
    /// Everything below the base (draft-sermersheim-ldap-subordinate-scope).
    Subordinate,
}

/// Conditions under which a search follows aliases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DerefAliases {
    /// Aliases are not followed.
    Never,
    /// Aliases below the base are followed. Aliases in the name of the base are not followed.
    InSearching,
    /// Aliases in the name of the base are followed. Aliases below the base are not followed.
    FindingBase,
    /// All aliases are followed.
    Always,
}

/// Modify (RFC 4511 section 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModifyRequest<'a> {
    /// The entry's DN, unparsed.
    pub object: &'a str,
    /// Changes, in order.
    pub changes: Changes<'a>,
}

/// Add (RFC 4511 section 4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddRequest<'a> {
    /// The new entry's DN, unparsed.
    pub entry: &'a str,
    /// Attributes of the new entry; each has at least one value.
    pub attributes: Attributes<'a>,
}

/// Delete (RFC 4511 section 4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteRequest<'a> {
    /// The entry's DN, unparsed.
    pub entry: &'a str,
}

/// Modify DN (RFC 4511 section 4.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModifyDnRequest<'a> {
    /// The entry's DN, unparsed.
    pub entry: &'a str,
    /// The new RDN, unparsed.
    pub new_rdn: &'a str,
    /// Whether to remove the values of the old RDN from the entry.
    pub delete_old_rdn: bool,
    /// The DN of the new parent, unparsed, for a move.
    pub new_superior: Option<&'a str>,
}

/// Compare (RFC 4511 section 4.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareRequest<'a> {
    /// The entry's DN, unparsed.
    pub entry: &'a str,
    /// The attribute description, unparsed.
    pub description: &'a str,
    /// The value to compare with.
    pub value: &'a [u8],
}

/// Extended operation (RFC 4511 section 4.12).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ExtendedRequest<'a> {
    /// The operation's OID; see [`oids`](crate::oids).
    pub name: &'a str,
    /// Parameters of the operation, in a form that the OID defines.
    pub value: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// Returns the operation's tag on the wire.
    pub const fn tag(&self) -> Tag {
        match self {
            Request::Bind(_) => request_tag::BIND,
            Request::Unbind => request_tag::UNBIND,
            Request::Search(_) => request_tag::SEARCH,
            Request::Modify(_) => request_tag::MODIFY,
            Request::Add(_) => request_tag::ADD,
            Request::Delete(_) => request_tag::DELETE,
            Request::ModifyDn(_) => request_tag::MODIFY_DN,
            Request::Compare(_) => request_tag::COMPARE,
            Request::Abandon(_) => request_tag::ABANDON,
            Request::Extended(_) => request_tag::EXTENDED,
        }
    }

    /// Decodes and validates an operation's content.
    pub(crate) fn decode(tag: Tag, content: &'a [u8], limits: &DecodeLimits) -> Body<Request<'a>> {
        let reader = Reader::new(content);
        match tag {
            request_tag::SEARCH => SearchRequest::decode(reader, limits).map(Request::Search),
            request_tag::BIND => BindRequest::decode(reader).map(Request::Bind),
            // The content should be NULL, but any content is accepted, as by slapd and 389 DS. An unbind has no
            // response that could report an error.
            request_tag::UNBIND => Ok(Request::Unbind),
            request_tag::MODIFY => ModifyRequest::decode(reader, limits).map(Request::Modify),
            request_tag::ADD => AddRequest::decode(reader, limits).map(Request::Add),
            request_tag::DELETE => {
                let entry = text(content).component("DelRequest")?;
                Ok(Request::Delete(DeleteRequest { entry }))
            }
            request_tag::MODIFY_DN => ModifyDnRequest::decode(reader).map(Request::ModifyDn),
            request_tag::COMPARE => CompareRequest::decode(reader).map(Request::Compare),
            request_tag::ABANDON => decode_abandon(content).map(Request::Abandon),
            request_tag::EXTENDED => ExtendedRequest::decode(reader).map(Request::Extended),
            _ => Err(BodyError::new("LDAPMessage.protocolOp", DecodeErrorKind::UnknownOperation)),
        }
    }
}

impl<'a> BindRequest<'a> {
    pub(crate) const SIMPLE: Tag = Tag::context(0);
    pub(crate) const SASL: Tag = Tag::context_constructed(3);

    fn decode(mut reader: Reader<'a>) -> Body<BindRequest<'a>> {
        let number = reader.integer().component("BindRequest.version")?;
        let version = i32::try_from(number)
            .ok()
            .filter(|version| (1..=127).contains(version))
            .ok_or_else(|| BodyError::new("BindRequest.version", DecodeErrorKind::OutOfRange(number)))?;
        let (name, authentication) = BindRequest::decode_credentials(&mut reader)?;
        reader.skip_rest().component("BindRequest")?;
        Ok(BindRequest { version, name, authentication })
    }

    /// Decodes the name and the authentication choice.
    pub(crate) fn decode_credentials(reader: &mut Reader<'a>) -> Body<(&'a str, Authentication<'a>)> {
        let name = string(reader).component("BindRequest.name")?;
        let (tag, content) = reader.any().component("BindRequest.authentication")?;
        let authentication = match tag {
            BindRequest::SIMPLE => Authentication::Simple(content),
            BindRequest::SASL => {
                let mut sasl = Reader::new(content);
                let mechanism = string(&mut sasl).component("SaslCredentials.mechanism")?;
                let credentials =
                    sasl.optional(Tag::OCTET_STRING).component("SaslCredentials.credentials")?;
                sasl.skip_rest().component("SaslCredentials")?;
                Authentication::Sasl { mechanism, credentials }
            }
            tag => Authentication::Unrecognized(tag),
        };
        Ok((name, authentication))
    }
}

impl<'a> SearchRequest<'a> {
    /// Creates a search without limits that does not follow aliases and returns values.
    pub fn new(
        base_object: &'a str,
        scope: Scope,
        filter: Filter<'a>,
        attributes: AttributeSelection<'a>,
    ) -> SearchRequest<'a> {
        SearchRequest {
            base_object,
            scope,
            deref_aliases: DerefAliases::Never,
            size_limit: 0,
            time_limit_seconds: 0,
            types_only: false,
            filter,
            attributes,
        }
    }

    fn decode(mut reader: Reader<'a>, limits: &DecodeLimits) -> Body<SearchRequest<'a>> {
        let base_object = string(&mut reader).component("SearchRequest.baseObject")?;
        let scope = reader.enumerated().component("SearchRequest.scope")?;
        let scope = Scope::from_number(scope)
            .ok_or(DecodeErrorKind::OutOfRange(scope))
            .component("SearchRequest.scope")?;
        let deref_aliases = reader.enumerated().component("SearchRequest.derefAliases")?;
        let deref_aliases = DerefAliases::from_number(deref_aliases)
            .ok_or(DecodeErrorKind::OutOfRange(deref_aliases))
            .component("SearchRequest.derefAliases")?;
        let size_limit = search_limit(&mut reader, "SearchRequest.sizeLimit")?;
        let time_limit_seconds = search_limit(&mut reader, "SearchRequest.timeLimit")?;
        let types_only = reader.boolean().component("SearchRequest.typesOnly")?;
        let filter = Filter::decode(&mut reader, limits)?;
        let attributes = AttributeSelection::decode(&mut reader, limits)?;
        reader.skip_rest().component("SearchRequest")?;
        Ok(SearchRequest {
            base_object,
            scope,
            deref_aliases,
            size_limit,
            time_limit_seconds,
            types_only,
            filter,
            attributes,
        })
    }
}

/// Reads a size limit or time limit, from 0 to maxInt.
fn search_limit(reader: &mut Reader<'_>, component: &'static str) -> Body<u32> {
    let value = reader.integer().component(component)?;
    let limit = i32::try_from(value).ok().and_then(|value| u32::try_from(value).ok());
    limit.ok_or(DecodeErrorKind::OutOfRange(value)).component(component)
}

impl Scope {
    /// Returns the scope with this number on the wire.
    pub const fn from_number(number: i64) -> Option<Scope> {
        match number {
            0 => Some(Scope::BaseObject),
            1 => Some(Scope::SingleLevel),
            2 => Some(Scope::WholeSubtree),
            // No RFC assigns this number. OpenLDAP and 389 DS use it for the scope of the draft.
            3 => Some(Scope::Subordinate),
            _ => None,
        }
    }

    /// Returns the number on the wire.
    pub const fn number(self) -> i64 {
        self as i64
    }
}

impl DerefAliases {
    /// Returns the mode with this number on the wire.
    pub const fn from_number(number: i64) -> Option<DerefAliases> {
        match number {
            0 => Some(DerefAliases::Never),
            1 => Some(DerefAliases::InSearching),
            2 => Some(DerefAliases::FindingBase),
            3 => Some(DerefAliases::Always),
            _ => None,
        }
    }

    /// Returns the number on the wire.
    pub const fn number(self) -> i64 {
        self as i64
    }
}

impl<'a> ModifyRequest<'a> {
    fn decode(mut reader: Reader<'a>, limits: &DecodeLimits) -> Body<ModifyRequest<'a>> {
        let object = string(&mut reader).component("ModifyRequest.object")?;
        let changes = Changes::decode(&mut reader, limits)?;
        reader.skip_rest().component("ModifyRequest")?;
        Ok(ModifyRequest { object, changes })
    }
}

impl<'a> AddRequest<'a> {
    fn decode(mut reader: Reader<'a>, limits: &DecodeLimits) -> Body<AddRequest<'a>> {
        let entry = string(&mut reader).component("AddRequest.entry")?;
        let attributes = Attributes::decode_full(&mut reader, limits)?;
        reader.skip_rest().component("AddRequest")?;
        Ok(AddRequest { entry, attributes })
    }
}

impl<'a> ModifyDnRequest<'a> {
    pub(crate) const NEW_SUPERIOR: Tag = Tag::context(0);

    fn decode(mut reader: Reader<'a>) -> Body<ModifyDnRequest<'a>> {
        let entry = string(&mut reader).component("ModifyDNRequest.entry")?;
        let new_rdn = string(&mut reader).component("ModifyDNRequest.newrdn")?;
        let delete_old_rdn = reader.boolean().component("ModifyDNRequest.deleteoldrdn")?;
        let new_superior =
            reader.optional(ModifyDnRequest::NEW_SUPERIOR).component("ModifyDNRequest.newSuperior")?;
        let new_superior = new_superior.map(text).transpose().component("ModifyDNRequest.newSuperior")?;
        reader.skip_rest().component("ModifyDNRequest")?;
        Ok(ModifyDnRequest { entry, new_rdn, delete_old_rdn, new_superior })
    }
}

impl<'a> CompareRequest<'a> {
    fn decode(mut reader: Reader<'a>) -> Body<CompareRequest<'a>> {
        let entry = string(&mut reader).component("CompareRequest.entry")?;
        let mut ava = reader.sequence(Tag::SEQUENCE).component("CompareRequest.ava")?;
        let description = string(&mut ava).component("AttributeValueAssertion.attributeDesc")?;
        let value = ava.octet_string().component("AttributeValueAssertion.assertionValue")?;
        ava.skip_rest().component("CompareRequest.ava")?;
        reader.skip_rest().component("CompareRequest")?;
        Ok(CompareRequest { entry, description, value })
    }
}

/// Decodes the content of an AbandonRequest, a MessageID. Ids that no request can have are accepted, because abandoning
/// an operation that does not exist has no effect (RFC 4511 section 4.11).
fn decode_abandon(content: &[u8]) -> Body<MessageId> {
    let number = ber::integer_content(content).component("AbandonRequest")?;
    let id = i32::try_from(number).ok().filter(|id| *id >= 0);
    id.map(MessageId).ok_or(DecodeErrorKind::OutOfRange(number)).component("AbandonRequest")
}

impl<'a> ExtendedRequest<'a> {
    pub(crate) const NAME: Tag = Tag::context(0);
    pub(crate) const VALUE: Tag = Tag::context(1);

    fn decode(mut reader: Reader<'a>) -> Body<ExtendedRequest<'a>> {
        let name = reader.element(ExtendedRequest::NAME).component("ExtendedRequest.requestName")?;
        let name = text(name).component("ExtendedRequest.requestName")?;
        let value = reader.optional(ExtendedRequest::VALUE).component("ExtendedRequest.requestValue")?;
        reader.skip_rest().component("ExtendedRequest")?;
        Ok(ExtendedRequest { name, value })
    }
}

impl std::fmt::Debug for Authentication<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Authentication::Simple(_) => f.write_str("Simple(..)"),
            Authentication::Sasl { mechanism, .. } => {
                f.debug_struct("Sasl").field("mechanism", mechanism).finish_non_exhaustive()
            }
            Authentication::Unrecognized(tag) => f.debug_tuple("Unrecognized").field(tag).finish(),
        }
    }
}

/// Does not show the value, because the value of a Password Modify request contains passwords.
impl std::fmt::Debug for ExtendedRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtendedRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

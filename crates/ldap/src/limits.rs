//! Limits on the input that a peer sends.
//!
//! The limits bound the work that one message can cause; none of them reserves memory.
//! [`Message::decode`](crate::Message::decode) checks the [`DecodeLimits`] before any other code receives the message.
//! The functions that decode the values of controls check the limits of these controls.

/// Maximum size of a message before authentication, in octets: 2 MiB.
pub const MESSAGE_SIZE_MAX_UNAUTHENTICATED: usize = 2 << 20;
/// Maximum size of a message after authentication, in octets: 16 MiB.
pub const MESSAGE_SIZE_MAX: usize = 16 << 20;
/// Maximum nesting depth of `and`, `or` and `not` in a filter; a single item has depth 1.
pub const FILTER_DEPTH_MAX: usize = 64;
/// Maximum value of [`DecodeLimits::filter_depth_max`]. Decoding and writing a filter are recursive, so this limit
/// protects the stack of a thread.
pub const FILTER_DEPTH_CEILING: usize = 256;
/// Maximum number of items and operators of a filter, and of the substrings of all its items in total.
pub const FILTER_TERMS_MAX: usize = 4096;
/// Maximum number of attributes of an add request or changes of a modify request.
pub const ELEMENT_COUNT_MAX: usize = 65_536;
/// Maximum number of selectors of a search, even if [`DecodeLimits::element_count_max`] is higher. The number is
/// limited because each selector is looked up in the schema, and some entries are compared with each selector. The
/// limit is as high as the number of attribute types in a large schema.
pub const SELECTOR_COUNT_MAX: usize = 4096;
/// Maximum number of values of all attributes of one add or modify request.
pub const VALUE_COUNT_MAX: usize = 1 << 20;
/// Maximum number of controls of a message.
pub const CONTROL_COUNT_MAX: usize = 64;
/// Maximum number of attribute descriptions in a dereference control.
pub const DEREFERENCED_MAX: usize = 100;
/// Maximum number of items in a matched values control.
pub const MATCHED_ITEMS_MAX: usize = 100;
/// Maximum number of sort keys.
pub const SORT_KEYS_MAX: usize = 8;
/// Maximum number of AVAs of a DN. A parsed AVA takes about 60 octets.
pub const DN_AVA_COUNT_MAX: usize = 1024;
/// Default maximum size of an LDIF record, in octets as written: 256 MiB, which is enough for a group of about four
/// million members.
pub const LDIF_RECORD_SIZE_MAX: usize = 256 << 20;

const _: () = assert!(FILTER_DEPTH_MAX <= FILTER_DEPTH_CEILING);
const _: () = assert!(MESSAGE_SIZE_MAX_UNAUTHENTICATED <= MESSAGE_SIZE_MAX);
const _: () = assert!(MESSAGE_SIZE_MAX <= ber::CONTENT_LEN_MAX);

/// Limits that [`Message::decode`](crate::Message::decode) enforces. The default is for an authenticated peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Maximum size of a message in octets, header included.
    pub message_size_max: usize,
    /// Maximum nesting depth of a filter. Values above [`FILTER_DEPTH_CEILING`] have the effect of that limit.
    pub filter_depth_max: usize,
    /// Maximum number of items, operators and substrings in a filter.
    pub filter_terms_max: usize,
    /// Maximum number of attributes, changes or selectors in a request; for selectors also at most
    /// [`SELECTOR_COUNT_MAX`].
    pub element_count_max: usize,
    /// Maximum number of values in a request.
    pub value_count_max: usize,
    /// Maximum number of controls of a message.
    pub control_count_max: usize,
}

impl DecodeLimits {
    /// Limits for peers that have not authenticated: the defaults, with the smaller message size.
    pub const UNAUTHENTICATED: DecodeLimits =
        DecodeLimits { message_size_max: MESSAGE_SIZE_MAX_UNAUTHENTICATED, ..DecodeLimits::AUTHENTICATED };

    /// Limits for peers that have authenticated: the defaults.
    pub const AUTHENTICATED: DecodeLimits = DecodeLimits {
        message_size_max: MESSAGE_SIZE_MAX,
        filter_depth_max: FILTER_DEPTH_MAX,
        filter_terms_max: FILTER_TERMS_MAX,
        element_count_max: ELEMENT_COUNT_MAX,
        value_count_max: VALUE_COUNT_MAX,
        control_count_max: CONTROL_COUNT_MAX,
    };
}

impl Default for DecodeLimits {
    fn default() -> DecodeLimits {
        DecodeLimits::AUTHENTICATED
    }
}

//! Every limit on what a peer may send, in one place.
//!
//! None of them reserves memory: they bound the work that one message can cause. All are checked while decoding, before
//! anything else sees the message.

/// Longest message accepted before authentication, in octets: 2 MiB.
pub const MESSAGE_SIZE_MAX_UNAUTHENTICATED: usize = 2 << 20;
/// Longest message accepted once bound, in octets: 16 MiB.
pub const MESSAGE_SIZE_MAX: usize = 16 << 20;
/// Greatest nesting depth of `and`, `or` and `not` in a filter; a single item has depth 1.
pub const FILTER_DEPTH_MAX: usize = 64;
/// The most [`DecodeLimits::filter_depth_max`] can be set to. Decoding and rendering descend by recursion, so this
/// is what keeps them far from the end of any thread's stack.
pub const FILTER_DEPTH_CEILING: usize = 256;
/// Most items and operators of a filter, and most pieces of all its substring items together.
pub const FILTER_TERMS_MAX: usize = 4096;
/// Most attributes of an add or changes of a modify.
pub const ELEMENT_COUNT_MAX: usize = 65_536;
/// Most selectors of a search, whatever [`DecodeLimits::element_count_max`] is: each is looked up in the schema, and
/// some entries are compared with each. Schemas have some thousand attribute types.
pub const SELECTOR_COUNT_MAX: usize = 4096;
/// Most values of all attributes of one add or modify together.
pub const VALUE_COUNT_MAX: usize = 1 << 20;
/// Most controls of a message.
pub const CONTROL_COUNT_MAX: usize = 64;
/// Most attribute descriptions in a dereference control.
pub const DEREFERENCED_MAX: usize = 100;
/// Most items of which values that come back pass one.
pub const MATCHED_ITEMS_MAX: usize = 100;
/// Most keys that results are sorted by.
pub const SORT_KEYS_MAX: usize = 8;
/// Most names and values of a DN; each takes some 60 octets when parsed.
pub const DN_AVA_COUNT_MAX: usize = 1024;
/// Default of the longest LDIF record, in octets as written: 256 MiB, which holds a group of some four million members.
pub const LDIF_RECORD_SIZE_MAX: usize = 256 << 20;

const _: () = assert!(FILTER_DEPTH_MAX <= FILTER_DEPTH_CEILING);
const _: () = assert!(MESSAGE_SIZE_MAX_UNAUTHENTICATED <= MESSAGE_SIZE_MAX);
const _: () = assert!(MESSAGE_SIZE_MAX <= ber::CONTENT_LEN_MAX);

/// Limits that [`Message::decode`](crate::Message::decode) enforces. The default is that of an authenticated peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Longest message in octets, header included.
    pub message_size_max: usize,
    /// Deepest nesting of a filter, at most [`FILTER_DEPTH_CEILING`] whatever is set here.
    pub filter_depth_max: usize,
    /// Most items, operators and substring pieces in a filter.
    pub filter_terms_max: usize,
    /// Most attributes, changes or, up to [`SELECTOR_COUNT_MAX`], selectors in a request.
    pub element_count_max: usize,
    /// Most values in a request.
    pub value_count_max: usize,
    /// Most controls on a message.
    pub control_count_max: usize,
}

impl DecodeLimits {
    /// The limits for peers that have not authenticated: the defaults with the smaller message size.
    pub const UNAUTHENTICATED: DecodeLimits =
        DecodeLimits { message_size_max: MESSAGE_SIZE_MAX_UNAUTHENTICATED, ..DecodeLimits::AUTHENTICATED };

    /// The limits for peers that have authenticated: the defaults.
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

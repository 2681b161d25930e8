//! All limits of this crate, in one place.

/// Maximum number of an entry's names that get keys for DIGEST-MD5: the first values of the identity attributes.
pub const DIGEST_NAMES_MAX: usize = 4;
/// Maximum length of such a name, in octets.
pub const DIGEST_NAME_SIZE_MAX: usize = 128;
/// Maximum length of the realm in the setting `sasl_realm`, in octets.
pub const REALM_SIZE_MAX: usize = 128;

/// Largest counter of a [`crate::model::csn::Csn`] within a microsecond (six hexadecimal digits).
pub const CSN_COUNT_MAX: u32 = 0xff_ffff;

/// Maximum size of a value in the entry row, in bytes. Longer values have rows of their own, so that reads of the
/// entry need not load them and entry rows stay below the 2,000 bytes above which LMDB doubles their size.
pub const INLINE_VALUE_MAX: usize = 1_024;

/// Maximum number of values that an attribute keeps in the entry row, in the order in which clients gave them. With
/// more, each value has a row, in the order of the normal keys.
pub const INLINE_VALUE_COUNT_MAX: usize = 64;

/// An attribute with one row per value returns to the entry row when it has fewer values than this. Lower than
/// [`INLINE_VALUE_COUNT_MAX`], so that an attribute near the limit does not move with every change.
pub const TABLE_VALUE_COUNT_MIN: usize = 32;

/// Maximum length of a normal key in an index row. The rest of a longer key is replaced by its hash.
pub const INDEX_KEY_MAX: usize = 256;

/// Maximum length of a normal value that is indexed by grams, in bytes: each byte costs one row.
pub const GRAMMED_VALUE_MAX: usize = 1_024;

/// Maximum number of distinct words in a value that is indexed by sound. A value with more has no such rows.
pub const CODES_PER_VALUE_MAX: usize = 128;

/// Entries whose index rows are built in one batch.
pub const INDEX_SLICE_ENTRIES_MAX: usize = 512;

/// Index rows built or removed in one batch (slightly more if an entry has many). This takes a few milliseconds, so
/// that changes of clients hardly wait.
pub const INDEX_SLICE_ROWS_MAX: usize = 2_048;

/// Maximum length of a normal name in a row key. LMDB's keys end at 511 bytes; the ids in the key take 20.
pub const NAME_KEY_MAX: usize = 440;

/// Size of the hash that replaces the rest of a long key, in bytes.
pub const KEY_HASH_SIZE: usize = 16;

/// Maximum depth of the tree: the number of entries in a chain of parents.
pub const TREE_DEPTH_MAX: usize = 256;

/// Maximum number of alias dereferences in one name; with more, the result is aliasDereferencingProblem.
pub const ALIAS_HOPS_MAX: usize = 16;

/// Maximum number of aliases in a directory that a search can follow; with more, the result is adminLimitExceeded.
pub const ALIASES_FOLLOWED_MAX: usize = 10_000;

/// Maximum number of groups of a requester that access rules consider; and of combinations of rules and containers
/// whose rights are cached.
pub const REQUESTER_GROUPS_MAX: usize = 10_000;
/// See [`REQUESTER_GROUPS_MAX`].
pub const RIGHTS_CACHED_MAX: usize = 4_096;
/// Maximum number of links that the test of one entry by the rule inchainMatch reads; with more, the result is
/// adminLimitExceeded. About 20 ms.
pub const CHAIN_LINKS_MAX: u64 = if cfg!(test) { 500 } else { 100_000 };
/// Maximum number of entries that a filter item with inchainMatch caches: those from which the asserted entry is
/// reached, and as many others with their result.
pub const CHAIN_CACHED_MAX: usize = 1 << 14;
/// Maximum number of links that are followed when a search with inchainMatch is planned; more are followed in slices.
pub const CHAIN_PLANNED_MAX: usize = if cfg!(test) { 8 } else { 1_024 };
/// Maximum number of entries that name a requester and are cached with its rights; with more, each entry is checked.
pub const ENTRIES_NAMING_REQUESTER_MAX: usize = 1_000;
/// Maximum number of requesters whose rights a snapshot caches.
pub const REQUESTERS_CACHED_MAX: usize = 1_024;
/// Maximum number of sources that invalidate cached rights, in addition to names in rules. Rights with more sources
/// are computed for each request.
pub const RIGHTS_SOURCES_MAX: usize = 1_024;
/// Maximum number of records that a snapshot reads to find the cached rights that they invalidate. After more
/// records, all are invalid.
pub const RECORDS_FOLLOWED_MAX: u64 = 256;
/// Maximum size of a record that is read for this purpose, in bytes; a larger one invalidates all.
pub const TOUCHED_RECORD_MAX: usize = 64 << 10;
/// Maximum number of attributes in the Get Effective Rights control, in addition to those that the search requests.
pub const RIGHTS_ATTRIBUTES_MAX: usize = 100;
/// Maximum number of access rules, and of octets in all their texts.
pub const ACCESS_RULES_MAX: usize = 1_000;

/// Maximum number of rules about values in one setting. A change is checked against each that concerns its attributes.
pub const VALUE_RULES_MAX: usize = 100;
/// Maximum length of a pattern in the setting `value_limits`, in octets.
pub const PATTERN_SIZE_MAX: usize = 1_000;
/// Maximum length of a value that a `like` pattern can match, in octets.
pub const PATTERN_VALUE_SIZE_MAX: usize = 10_000;
/// Maximum number of numbers in use that are read to find a free one.
pub const NEXT_NUMBERS_EXAMINED_MAX: usize = 100_000;
/// Maximum number of entries that one check of a rule about values reads: those that a move brings among the covered
/// ones, and those that have a value without being covered.
pub const VALUE_RULE_ENTRIES_MAX: usize = 10_000;

/// Maximum length of a name other than a DN with which a client binds, in octets.
pub const BIND_NAME_MAX: usize = 256;
/// Maximum number of entries with one value among which a bind looks for the only one that a rule covers.
pub const BIND_NAME_ENTRIES_MAX: usize = 100;

/// Maximum number of containers whose DN a snapshot caches.
pub const CONTAINERS_CACHED_MAX: usize = 4_096;

/// Maximum number of search bases whose entry a snapshot caches.
pub const BASES_CACHED_MAX: usize = 256;

/// Maximum number of entry ids that a search collects and sorts (8 bytes each). If an index range or a container has
/// more, the search scans.
pub const COLLECTED_IDS_MAX: usize = 1 << 20;

/// Maximum number of ids counted in a range of index keys when a search is planned: about 4 ms.
pub const RANGE_COUNTED_MAX: u64 = 65_536;

/// Maximum number of entries in a subtree that a search traverses instead of scanning all entries: about 2 ms.
pub const SUBTREE_WALKED_MAX: u64 = 16_384;

/// Maximum number of entries for which a presence filter uses the ordering index. Counting an attribute that most
/// entries have is not worthwhile.
pub const PRESENCE_KEYS_MAX: u64 = 4_096;

/// Maximum number of grams made of a filter item. More than are looked up, because a text repeats grams.
pub const NEEDED_GRAMS_MAX: usize = 256;

/// Maximum number of grams or sounds of a filter item that are looked up; the whole filter decides anyway.
pub const ITEM_LOOKUPS_MAX: usize = 32;

/// Maximum number of postings that are intersected with the shortest one of a filter item.
pub const POSTINGS_INTERSECTED_MAX: usize = 6;

/// Number of candidates of one term of an *and* above which the planner looks for another term to intersect with.
pub const INTERSECTION_COUNT_MIN: u64 = 512;

/// A page of a search scans, instead of collecting ids again for every page, if at least one in this many entries is
/// a candidate and the page is likely to be complete before as many entries are examined as there are ids to
/// collect.
pub const PAGE_SCAN_SHARE_MIN: u64 = 8;

/// Like [`PAGE_SCAN_SHARE_MIN`], if rows of `nodes` decide, which are examined several times faster than entries.
pub const PAGE_NODES_SHARE_MIN: u64 = 64;

/// Maximum number of ids for which two terms of an *and* are intersected when a search is planned: about 2 ms.
pub const INTERSECTION_COUNT_MAX: u64 = 131_072;

/// Maximum size of the values collected for one result, in bytes. A larger entry is sent as a stream.
pub const GATHERED_MAX: usize = 256 << 10;

/// Maximum number of entries below one that are deleted with it in one step. All other changes wait meanwhile: some
/// tenths of a second, or one second if other entries name all of them.
pub const TREE_DELETED_MAX: usize = if cfg!(test) { 100 } else { 20_000 };

/// Maximum size of the tombstones of one delete, in octets, before it is refused.
pub const TOMBSTONES_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// Maximum number of tombstones that one record removes.
pub const TOMBSTONES_PURGED_MAX: usize = if cfg!(test) { 10 } else { 1_000 };

/// Maximum number of tombstones that one answer lists, or examines.
pub const TOMBSTONES_LISTED_MAX: usize = if cfg!(test) { 10 } else { 500 };

/// Maximum number of log records that one request for a history examines.
pub const HISTORY_RECORDS_MAX: usize = if cfg!(test) { 10 } else { 1_000 };

/// Maximum number of bytes of log records that one request for a history examines, apart from the last record.
pub const HISTORY_READ_BYTES_MAX: usize = 8 << 20;

/// Size beyond which an answer about a history ends, apart from the last change, in bytes; also that of the values of
/// one change.
pub const HISTORY_BYTES_MAX: usize = 256 << 10;

/// Maximum size of an entry's copy in the response to a change (RFC 4527), in octets.
pub const COPY_BYTES_MAX: usize = 256 << 10;

/// Maximum length of a content synchronization cookie that is parsed, in octets.
pub const SYNC_COOKIE_MAX: usize = 1_000;

/// Maximum number of records that a poll reads to find what changed since the last one; with more, it sends all
/// entries.
pub const SYNC_RECORDS_MAX: u64 = 20_000;

/// Maximum number of entries that count as changed because another was renamed; with more, all are sent.
pub const SYNC_TOUCHED_MAX: usize = 10_000;

/// Most deleted entries that a poll names. A poll that would have to name more names the present ones.
pub const SYNC_DELETED_MAX: usize = 100_000;

/// Most deleted entries, and most entries that named them, in the trace of a record. A record of a delete with more has
/// none.
pub const DELETE_TRACE_MAX: usize = 1_000;

/// Number of records after which a persistent search receives a new cookie although no record concerns it. With an
/// old cookie a later poll would send everything.
pub const COOKIE_RECORDS_MAX: u64 = if cfg!(test) { 200 } else { SYNC_RECORDS_MAX / 4 };

/// Maximum number of snapshots kept for persistent searches whose clients have not read everything yet. Above it the
/// slowest of them end; above twice as many no new ones begin. Each snapshot takes a view of the store.
pub const SHARED_SNAPSHOTS_MAX: usize = 200;

/// Maximum number of records that a persistent search reads to catch up; with more, the client has to poll.
pub const FOLLOWED_RECORDS_MAX: u64 = 100_000;

/// Maximum number of entries that these records may affect; with more, the client has to poll.
pub const FOLLOWED_ENTRIES_MAX: usize = 100_000;

/// Maximum number of entries below a renamed one that are each reported; with more, searches that have them in their
/// scope end.
pub const FOLLOWED_MOVED_MAX: usize = if cfg!(test) { 100 } else { 10_000 };

/// Maximum number of entries below renamed ones that are traversed to find the entries that name them; with more,
/// all persistent searches end.
pub const FOLLOWED_WALK_MAX: usize = 1_000_000;

/// Maximum number of values in an answer to a request for a range of them, as in Active Directory.
pub const RANGE_VALUES_MAX: u64 = if cfg!(test) { 10 } else { 1_500 };
/// Maximum size of these values, in octets, unless there is only one.
pub const RANGE_OCTETS_MAX: usize = 64 << 10;
/// Maximum number of ranges that a search requests; further ones select nothing.
pub const VALUE_RANGES_MAX: usize = 16;

/// Maximum number of entries in one message of content synchronization.
pub const SYNC_SET_MAX: usize = 500;

/// Maximum number of entries sent as streams at a time, each with its own snapshot; one more gets the result busy.
pub const STREAMS_MAX: usize = 32;

/// Values of a streamed entry that count as much work as one candidate of a search.
pub const STREAMED_PER_ENTRY: usize = 4;

/// Maximum number of postings that a search merges; if a filter needs more, it scans.
pub const POSTINGS_MERGED_MAX: usize = 256;

/// Maximum number of names in one result that are dereferenced at once for the dereference control: some 5 ms. A
/// result with more is sent as a stream.
pub const DEREFERENCED_AT_ONCE_MAX: usize = if cfg!(test) { 100 } else { 2_000 };

/// Maximum size of one result's message, in octets: the longest that BER readers accept. A longer one is not sent.
pub const MESSAGE_BYTES_MAX: usize = if cfg!(test) { 4 << 20 } else { ber::CONTENT_LEN_MAX };

/// Maximum memory for the keys of a sorted search: 32 MiB, some 400,000 entries sorted by a short value. A search
/// whose page or size limit returns fewer entries keeps no more keys than these.
pub const SORT_BYTES_MAX: usize = if cfg!(test) { 64 << 10 } else { 32 << 20 };

/// Octets that sorting compares, of the normal forms of all sort keys together. Entries that are equal up to there are
/// in order of ids. With the id, they fit into the key of a row of a sort order.
pub const SORT_KEY_MAX: usize = 480;

/// Maximum number of sort orders.
pub const SORT_ORDERS_MAX: usize = 20;

/// Maximum number of values of an entry among which the least one is searched for when they are not stored in order.
/// A search that meets an entry with more is not sorted.
pub const SORT_VALUES_MAX: usize = if cfg!(test) { 100 } else { 1_000 };

/// Maximum size of a filter's shape in statistics, in octets, before it is cut.
pub const FILTER_SHAPE_BYTES_MAX: usize = 256;

/// Default share of the scan threads' time that searches without an index of one requester may take, in percent.
pub const SCAN_SHARE_PERCENT: u32 = 25;

/// Maximum number of spellings of object classes whose class set an import thread caches.
pub const CLASS_SETS_CACHED_MAX: usize = 4_096;

/// Maximum size of all schema texts of the settings together, in octets; the shipped schema has some 100,000.
pub const SCHEMA_TEXTS_BYTES_MAX: usize = 4 << 20;

/// Maximum number of names in a setting that lists identities. Each is looked up whenever the setting is consulted.
pub const IDENTITIES_MAX: usize = 64;

/// Maximum number of time steps before and after the current one whose codes a policy may accept, and the default
/// (RFC 6238 section 5.2).
pub const TOTP_WINDOW_MAX: u32 = 10;
/// See [`TOTP_WINDOW_MAX`].
pub const TOTP_WINDOW_USUAL: u32 = 1;

/// Maximum number of application passwords that a policy may allow a user.
pub const APP_PASSWORDS_MAX: u32 = 64;

/// Maximum number of former passwords that a policy may keep: a new one is verified against each of them.
pub const PASSWORD_HISTORY_MAX: u32 = 64;

/// Maximum number of failed attempts recorded in an entry, whatever its policy says.
pub const PASSWORD_FAILURES_MAX: usize = 100;

/// Maximum number of entries that are read as password policies.
pub const PASSWORD_POLICIES_MAX: usize = 10_000;

/// Maximum number of values of one entry that have an end: all are returned with the entry.
pub const VALUE_ENDS_MAX: usize = if cfg!(test) { 20 } else { 10_000 };

/// Maximum number of values of one entry that one record removes because their end has come.
pub const VALUES_ENDED_MAX: usize = if cfg!(test) { 4 } else { 1_000 };

/// Maximum number of existing entries that are examined at once for a rule of `auto_members`.
pub const JOIN_ENTRIES_MAX: usize = if cfg!(test) { 3 } else { 5_000 };

/// Maximum number of existing entries that join a group by one record.
pub const JOINED_AT_ONCE_MAX: usize = if cfg!(test) { 2 } else { 1_000 };

/// Maximum number of entries that are examined at once for values that become links.
pub const LINK_ENTRIES_MAX: usize = if cfg!(test) { 3 } else { 10_000 };

/// Number of values after which a record names no further entry whose values become links. The values of one entry
/// become links by one record.
pub const LINKED_VALUES_MAX: usize = if cfg!(test) { 2 } else { 5_000 };

/// Octets of deleted entries after which a slice of a search ends: an octet may be a third of a link, which costs a
/// look-up.
pub const TOMBSTONES_SLICE_BYTES: usize = if cfg!(test) { 4_000 } else { 64 << 10 };

/// Octets of values with former normal forms after which those read so far move, when definitions are added.
pub const STALE_ROWS_BYTES: usize = if cfg!(test) { 200 } else { 1 << 20 };

/// Maximum length of a deleted entry that a search returns with its values, in octets.
pub const TOMBSTONE_RESULT_MAX: usize = if cfg!(test) { 2_000 } else { 256 << 10 };

/// Maximum number of dynamic entries that are deleted in one batch because their time has come.
pub const EXPIRED_AT_ONCE_MAX: usize = 256;

/// Longest time for which a client may refresh a dynamic entry, in seconds (RFC 2589 section 4.1).
pub const DYNAMIC_TTL_LIMIT: u32 = 31_557_600;

/// Maximum number of collective attribute subentries that entries have values of; those with the lowest entry ids
/// count.
pub const COLLECTIVE_SUBENTRIES_MAX: usize = if cfg!(test) { 20 } else { 1_000 };

/// Maximum length of the collective values of all these subentries together: no entry can have more of them.
pub const COLLECTIVE_OCTETS_MAX: usize = 1 << 20;

/// Maximum length of the collective values of one subentry. A row of an entry can hold values of that length.
pub const COLLECTIVE_SUBENTRY_OCTETS_MAX: usize = 65_535;

/// Maximum number of dynamic groups that memberships consider; those with the lowest entry ids are considered.
pub const DYNAMIC_GROUPS_MAX: usize = if cfg!(test) { 20 } else { 1_000 };

/// Maximum length of the memberURL values of all these groups together, and of one group.
pub const DYNAMIC_GROUP_OCTETS_MAX: usize = 1 << 20;

/// Maximum number of notices about policies that cannot be applied as written. Further ones are dropped.
pub const POLICY_NOTICES_MAX: usize = 100;

/// Maximum number of names in the setting `secret_attributes`.
pub const SECRET_ATTRIBUTES_MAX: usize = 1_000;

/// Maximum length of a schema text's name, in letters.
pub const SCHEMA_NAME_MAX: usize = 64;

/// Maximum number of values of an attribute, before or after a change, that are compared if the requester may write
/// only some of them.
pub const VALUES_COMPARED_MAX: usize = 1_000;

/// Default number of records that the log keeps; older ones are trimmed, a few with every commit.
pub const LOG_RECORDS_KEPT: u64 = 1_000_000;

/// Maximum number of records trimmed with one commit, so that a shorter log makes no commit long.
pub const LOG_TRIM_SLICE: usize = 256;

const _: () = assert!(NAME_KEY_MAX + 20 <= 511 && INDEX_KEY_MAX + 4 <= 511);
const _: () = assert!(TABLE_VALUE_COUNT_MIN < INLINE_VALUE_COUNT_MAX && KEY_HASH_SIZE < INDEX_KEY_MAX);

//! All limits of this crate.

/// Maximum number of names for which one entry has keys for DIGEST-MD5. These names are the first values of the
/// identity attributes.
pub const DIGEST_NAMES_MAX: usize = 4;
/// Maximum length in octets of a name that has keys for DIGEST-MD5.
pub const DIGEST_NAME_SIZE_MAX: usize = 128;
/// Maximum length of the realm in the setting `sasl_realm`, in octets.
pub const REALM_SIZE_MAX: usize = 128;

/// Largest counter of a [`crate::model::csn::Csn`] within one microsecond (six hexadecimal digits).
pub const CSN_COUNT_MAX: u32 = 0xff_ffff;

/// Maximum size of a value in the entry row, in bytes. A longer value has a row of its own, so that reads of the entry
/// need not load the value. Entry rows then usually stay below 2,000 bytes, above which LMDB doubles their size.
pub const INLINE_VALUE_MAX: usize = 1_024;

/// Maximum number of values of an attribute in the entry row, in the order in which clients added them. With more
/// values, each value has its own row, in the order of normal keys.
pub const INLINE_VALUE_COUNT_MAX: usize = 64;

/// Minimum number of values of an attribute with one row per value. With fewer values, the values move back into the
/// entry row. The number is lower than [`INLINE_VALUE_COUNT_MAX`], so that an attribute near the limit does not move
/// at every change.
pub const TABLE_VALUE_COUNT_MIN: usize = 32;

/// Maximum number of attributes (types with their options) that one add or one modify names.
pub const ENTRY_ATTRIBUTES_MAX: usize = 1_024;

/// Maximum number of attributes (types with their options) that all entries together have or had. The catalog keeps
/// each attribute in memory forever, with about 500 octets. Only the administrator can exceed half of this number.
pub const ATTRIBUTES_MAX: usize = if cfg!(test) { 6_000 } else { 65_536 };

/// Maximum number of sets of object classes that all entries together have or had. The catalog keeps each set in
/// memory forever. Only the administrator can exceed half of this number.
pub const CLASS_SETS_MAX: usize = if cfg!(test) { 64 } else { 8_192 };

/// Maximum length of a normal key in an index row. In a longer key, a hash replaces the rest.
pub const INDEX_KEY_MAX: usize = 256;

/// Maximum length of a normal value that is indexed by grams, in bytes. Each byte costs one row.
pub const GRAMMED_VALUE_MAX: usize = 1_024;

/// Maximum number of distinct words in a value that is indexed by sound. A value with more words is not indexed by
/// sound.
pub const CODES_PER_VALUE_MAX: usize = 128;

/// Maximum number of entries whose index rows are built in one batch.
pub const INDEX_SLICE_ENTRIES_MAX: usize = 512;

/// Maximum number of index rows built or removed in one batch, exceeded slightly if an entry has many rows. A batch
/// takes a few milliseconds, so that changes of clients hardly wait.
pub const INDEX_SLICE_ROWS_MAX: usize = 2_048;

/// Maximum length of a normal name in a row key. An LMDB key has at most 511 bytes; the ids in the key take 20.
pub const NAME_KEY_MAX: usize = 440;

/// Size in bytes of the hash at the end of a shortened key.
pub const KEY_HASH_SIZE: usize = 16;

/// Maximum depth of the tree: the number of entries on the path from the suffix entry to an entry, plus one for the
/// root.
pub const TREE_DEPTH_MAX: usize = 256;

/// Maximum number of alias dereferences for one name. More dereferences cause aliasDereferencingProblem.
pub const ALIAS_HOPS_MAX: usize = 16;

/// Maximum number of aliases in a directory that a search can follow. More aliases cause adminLimitExceeded.
pub const ALIASES_FOLLOWED_MAX: usize = 10_000;

/// Maximum number of groups of a requester that access rules consider.
pub const REQUESTER_GROUPS_MAX: usize = 10_000;
/// Maximum number of combinations of an access rule and a container for which one requester's rights are cached.
pub const RIGHTS_CACHED_MAX: usize = 4_096;
/// Maximum number of links that inchainMatch reads to test one entry. Reading this many takes about 20 ms. More links
/// cause adminLimitExceeded.
pub const CHAIN_LINKS_MAX: u64 = if cfg!(test) { 500 } else { 100_000 };
/// Maximum number of entries that a filter item with inchainMatch caches because their links lead to the asserted
/// entry. The same maximum applies to the cached match results of other entries.
pub const CHAIN_CACHED_MAX: usize = 1 << 14;
/// Maximum number of links that the planner follows for a search with inchainMatch. The search follows further links in
/// slices.
pub const CHAIN_PLANNED_MAX: usize = if cfg!(test) { 8 } else { 1_024 };
/// Maximum number of entries that name a requester and are cached with the requester's rights. If more entries name the
/// requester, each accessed entry is checked instead.
pub const ENTRIES_NAMING_REQUESTER_MAX: usize = 1_000;
/// Maximum number of requesters whose rights a snapshot caches.
pub const REQUESTERS_CACHED_MAX: usize = 1_024;
/// Maximum number of sources that invalidate the cached rights of a requester, not counting names in rules. Rights with
/// more sources are computed again for each request.
pub const RIGHTS_SOURCES_MAX: usize = 1_024;
/// Maximum number of new records that a snapshot reads to find which cached rights they invalidate. More records
/// invalidate all cached rights.
pub const RECORDS_FOLLOWED_MAX: u64 = 256;
/// Maximum size in bytes of a record that a snapshot reads to find which cached rights it invalidates. A larger record
/// invalidates all cached rights.
pub const TOUCHED_RECORD_MAX: usize = 64 << 10;
/// Maximum number of attributes in the Get Effective Rights control, not counting attributes that the search requests.
pub const RIGHTS_ATTRIBUTES_MAX: usize = 100;
/// Maximum number of access rules.
pub const ACCESS_RULES_MAX: usize = 1_000;

/// Maximum number of value rules in one setting. A change is checked against each rule that covers one of its
/// attributes.
pub const VALUE_RULES_MAX: usize = 100;
/// Maximum length of a pattern in the setting `value_limits`, in octets.
pub const PATTERN_SIZE_MAX: usize = 1_000;
/// Maximum length of a value that a `like` pattern can match, in octets.
pub const PATTERN_VALUE_SIZE_MAX: usize = 10_000;
/// Maximum number of used numbers that the search for a free number examines.
pub const NEXT_NUMBERS_EXAMINED_MAX: usize = 100_000;
/// Maximum number of entries that one check of a value rule or structure rule reads: entries of a moved subtree, and
/// entries that have the value but are not covered by the rule.
pub const VALUE_RULE_ENTRIES_MAX: usize = 10_000;

/// Maximum length of a bind name that is not a DN, in octets.
pub const BIND_NAME_MAX: usize = 256;
/// Maximum number of entries with the same value that are examined to find the only entry that a name denotes.
pub const NAMED_ENTRIES_MAX: usize = 100;

/// Maximum number of containers whose DNs a snapshot caches.
pub const CONTAINERS_CACHED_MAX: usize = 4_096;

/// Maximum number of search bases whose entries a snapshot caches.
pub const BASES_CACHED_MAX: usize = 256;

/// Maximum number of entry ids that a search collects and sorts (8 bytes each). If an index range or a container has
/// more ids, the search scans all entries instead.
pub const COLLECTED_IDS_MAX: usize = 1 << 20;

/// Maximum number of ids that the planner counts in a range of index keys. Counting this many takes about 4 ms.
pub const RANGE_COUNTED_MAX: u64 = 65_536;

/// Maximum number of entries in a subtree that a search traverses instead of scanning all entries. Traversing this many
/// takes about 2 ms.
pub const SUBTREE_WALKED_MAX: u64 = 16_384;

/// Maximum number of entries for which a presence filter uses the ordering index. Counting more entries is not
/// worthwhile.
pub const PRESENCE_KEYS_MAX: u64 = 4_096;

/// Maximum number of grams that are computed for a filter item. This limit exceeds [`ITEM_LOOKUPS_MAX`], because a
/// text may contain the same gram several times.
pub const NEEDED_GRAMS_MAX: usize = 256;

/// Maximum number of grams or sounds that are looked up for a filter item. If an item has more, the lookup may return
/// candidates that do not match the item. The matcher evaluates the whole filter in any case.
pub const ITEM_LOOKUPS_MAX: usize = 32;

/// Maximum number of postings that are intersected with the shortest posting of a filter item.
pub const POSTINGS_INTERSECTED_MAX: usize = 6;

/// Minimum number of candidates of one term of an *and* at which the planner looks for a second term to intersect with.
pub const INTERSECTION_COUNT_MIN: u64 = 512;

/// Maximum number of entries per candidate at which a paged search scans all entries instead of collecting ids. A scan
/// continues after the previous page, whereas ids would be collected again for every page. In addition, the page must
/// be likely to be complete before the scan has examined as many entries as there are ids to collect.
pub const PAGE_SCAN_SHARE_MIN: u64 = 8;

/// Like [`PAGE_SCAN_SHARE_MIN`], for a scan of `nodes`. Such a scan examines rows several times faster than a scan of
/// `entries`.
pub const PAGE_NODES_SHARE_MIN: u64 = 64;

/// Maximum number of ids for which the planner intersects two terms of an *and*. Intersecting this many takes about 2
/// ms.
pub const INTERSECTION_COUNT_MAX: u64 = 131_072;

/// Maximum size in bytes of the values collected for one search result. A larger entry is sent as a stream.
pub const GATHERED_MAX: usize = 256 << 10;

/// Maximum number of entries that a tree delete removes below its top entry. All other changes wait for the tree
/// delete: some tenths of a second, or one second if other entries name all of the deleted entries.
pub const TREE_DELETED_MAX: usize = if cfg!(test) { 100 } else { 20_000 };

/// Maximum size of the tombstones of one delete, in octets. A larger delete is refused.
pub const TOMBSTONES_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// Maximum number of tombstones that one record removes.
pub const TOMBSTONES_PURGED_MAX: usize = if cfg!(test) { 10 } else { 1_000 };

/// Maximum number of tombstones that one response lists, or that one request examines.
pub const TOMBSTONES_LISTED_MAX: usize = if cfg!(test) { 10 } else { 500 };

/// Maximum number of log records that one request for a history examines.
pub const HISTORY_RECORDS_MAX: usize = if cfg!(test) { 10 } else { 1_000 };

/// Maximum number of bytes of log records that one request for a history examines, not counting the last record that it
/// examines.
pub const HISTORY_READ_BYTES_MAX: usize = 8 << 20;

/// Size in bytes after which a history response ends, not counting its last change. This limit is also the maximum
/// size of the values of one change.
pub const HISTORY_BYTES_MAX: usize = 256 << 10;

/// Maximum size of the entry returned by the pre-read and post-read controls (RFC 4527), in octets.
pub const COPY_BYTES_MAX: usize = 256 << 10;

/// Maximum length in octets of a content synchronization cookie. A longer cookie is not parsed.
pub const SYNC_COOKIE_MAX: usize = 1_000;

/// Maximum number of records that a refresh reads to find the changes since the client's cookie. If there are more, the
/// refresh sends all entries.
pub const SYNC_RECORDS_MAX: u64 = 20_000;

/// Maximum number of entries that count as changed because an entry that they name was added, renamed or deleted. If
/// there are more, the refresh sends all entries.
pub const SYNC_TOUCHED_MAX: usize = 10_000;

/// Maximum number of deleted entries that a refresh names. If there are more, the refresh names the present entries
/// instead.
pub const SYNC_DELETED_MAX: usize = 100_000;

/// Maximum number of deleted entries in the trace of a delete record. The same limit applies to the number of entries
/// with links to the deleted entries. The record of a larger delete has no trace.
pub const DELETE_TRACE_MAX: usize = 1_000;

/// Number of records without a notification after which a persistent search receives a new cookie. With a cookie that
/// is too old, the client would have to read all entries again.
pub const COOKIE_RECORDS_MAX: u64 = if cfg!(test) { 200 } else { SYNC_RECORDS_MAX / 4 };

/// Maximum number of snapshots kept for persistent searches whose clients have not read all notifications. Above this
/// number, the searches of the slowest clients end. Above twice this number, the server accepts no new persistent
/// searches. Each snapshot uses a view of the store.
pub const SHARED_SNAPSHOTS_MAX: usize = 200;

/// Maximum number of records that a persistent search reads to catch up with the log. If there are more, the search
/// ends and the client has to poll.
pub const FOLLOWED_RECORDS_MAX: u64 = 100_000;

/// Maximum number of entries affected by the records that a persistent search reads to catch up. If there are more, the
/// search ends and the client has to poll.
pub const FOLLOWED_ENTRIES_MAX: usize = 100_000;

/// Maximum number of entries below a renamed entry that persistent searches report individually. If there are more,
/// searches with these entries in their scope end.
pub const FOLLOWED_MOVED_MAX: usize = if cfg!(test) { 100 } else { 10_000 };

/// Maximum number of entries below renamed entries that are traversed to find the entries with links to them. If there
/// are more, all persistent searches end.
pub const FOLLOWED_VISITS_MAX: usize = 1_000_000;

/// Maximum number of values in the response to a request for a value range, as in Active Directory.
pub const RANGE_VALUES_MAX: u64 = if cfg!(test) { 10 } else { 1_500 };
/// Maximum size in octets of the values of a range. A single value may be larger.
pub const RANGE_OCTETS_MAX: usize = 64 << 10;
/// Maximum number of value ranges that a search requests. Further value ranges select nothing.
pub const VALUE_RANGES_MAX: usize = 16;

/// Maximum number of entries in one message of content synchronization.
pub const SYNC_SET_MAX: usize = 500;

/// Maximum number of entries sent as streams at the same time, each with its own snapshot. A search that needs another
/// stream returns busy.
pub const STREAMS_MAX: usize = 32;

/// Number of values of a streamed entry that cost as much as one candidate of a search.
pub const STREAMED_PER_ENTRY: usize = 4;

/// Maximum number of postings that a search merges. If a filter needs more, the search scans all entries.
pub const POSTINGS_MERGED_MAX: usize = 256;

/// Maximum number of names in one result that the dereference control reads in one step. Reading this many takes about
/// 5 ms. A result with more names is sent as a stream.
pub const DEREFERENCED_AT_ONCE_MAX: usize = if cfg!(test) { 100 } else { 2_000 };

/// Maximum size of one search result message, in octets. BER readers accept no larger message. A longer message is not
/// sent.
pub const MESSAGE_BYTES_MAX: usize = if cfg!(test) { 4 << 20 } else { ber::CONTENT_LEN_MAX };

/// Maximum memory in bytes for the keys of a sorted search. 32 MiB suffice for about 400,000 entries sorted by a short
/// value. A page or size limit reduces the number of keys that the search keeps.
pub const SORT_BYTES_MAX: usize = if cfg!(test) { 64 << 10 } else { 32 << 20 };

/// Maximum total length in octets of the normal forms of an entry's sort keys. Octets beyond this length are not
/// compared, so different entries may compare as equal. Such entries are ordered by id. With the id, the keys fit into
/// a row key of a sort order.
pub const SORT_KEY_MAX: usize = 480;

/// Maximum number of sort orders.
pub const SORT_ORDERS_MAX: usize = 20;

/// Maximum number of values of an entry among which a sort searches for the least value, if the values are not stored
/// in order. If an entry has more values, the search is not sorted.
pub const SORT_VALUES_MAX: usize = if cfg!(test) { 100 } else { 1_000 };

/// Maximum size in octets of a filter's shape in statistics. A longer shape is cut.
pub const FILTER_SHAPE_BYTES_MAX: usize = 256;

/// Default percentage of the scan threads' time that the unindexed searches of one requester may take.
pub const SCAN_SHARE_PERCENT: u32 = 25;

/// Maximum number of lists of object classes, as spelled in the LDIF, for which an import thread caches the class set.
pub const CLASS_SETS_CACHED_MAX: usize = 4_096;

/// Maximum total size of all schema texts in the settings, in octets. The shipped schema has about 100,000 octets.
pub const SCHEMA_TEXTS_BYTES_MAX: usize = 4 << 20;

/// Maximum number of names in a setting that lists identities. Each use of the setting resolves all names.
pub const IDENTITIES_MAX: usize = 64;

/// Maximum number of time steps before and after the current time step whose codes a password policy may accept (RFC
/// 6238 section 5.2).
pub const TOTP_WINDOW_MAX: u32 = 10;
/// Default for the number of time steps that [`TOTP_WINDOW_MAX`] limits.
pub const TOTP_WINDOW_USUAL: u32 = 1;

/// Maximum number of application passwords per user that a policy may allow.
pub const APP_PASSWORDS_MAX: u32 = 64;

/// Maximum number of former passwords that a policy may keep. A new password is compared with each of them.
pub const PASSWORD_HISTORY_MAX: u32 = 64;

/// Maximum number of failed attempts recorded in an entry, whatever its policy allows.
pub const PASSWORD_FAILURES_MAX: usize = 100;

/// Maximum number of entries that are read as password policies.
pub const PASSWORD_POLICIES_MAX: usize = 10_000;

/// Maximum number of values of one entry that have an end time. All end times are returned with the entry.
pub const VALUE_ENDS_MAX: usize = if cfg!(test) { 20 } else { 10_000 };

/// Maximum number of ended values of one entry that one record removes.
pub const VALUES_ENDED_MAX: usize = if cfg!(test) { 4 } else { 1_000 };

/// Maximum number of existing entries that one step examines for a rule of `auto_members`.
pub const JOIN_ENTRIES_MAX: usize = if cfg!(test) { 3 } else { 5_000 };

/// Maximum number of existing entries that join a group by one record.
pub const JOINED_AT_ONCE_MAX: usize = if cfg!(test) { 2 } else { 1_000 };

/// Maximum number of entries that one step of the conversion to links examines.
pub const LINK_ENTRIES_MAX: usize = if cfg!(test) { 3 } else { 10_000 };

/// Number of values after which a record of the conversion to links includes no further entry. The record converts all
/// values of each entry that it includes.
pub const LINKED_VALUES_MAX: usize = if cfg!(test) { 2 } else { 5_000 };

/// Octets of tombstones after which a slice of a search for deleted entries ends. A link in a tombstone takes at least
/// three octets, and costs a lookup.
pub const TOMBSTONES_SLICE_BYTES: usize = if cfg!(test) { 4_000 } else { 64 << 10 };

/// Approximate size in octets of a batch of values that move to new keys, because definitions that were added to the
/// schema change their normal forms.
pub const STALE_ROWS_BYTES: usize = if cfg!(test) { 200 } else { 1 << 20 };

/// Maximum length in octets of a tombstone that a search returns with its values.
pub const TOMBSTONE_RESULT_MAX: usize = if cfg!(test) { 2_000 } else { 256 << 10 };

/// Maximum number of expired dynamic entries that are deleted in one batch.
pub const EXPIRED_AT_ONCE_MAX: usize = 256;

/// Maximum time to live that a client may request for a dynamic entry, in seconds (RFC 2589 section 4.1).
pub const DYNAMIC_TTL_LIMIT: u32 = 31_557_600;

/// Maximum number of collective attribute subentries that give values to entries. If there are more, only the
/// subentries with the lowest entry ids have an effect.
pub const COLLECTIVE_SUBENTRIES_MAX: usize = if cfg!(test) { 20 } else { 1_000 };

/// Maximum total length of the collective values of all subentries. The same limit applies to one entry.
pub const COLLECTIVE_OCTETS_MAX: usize = 1 << 20;

/// Maximum length of the collective values of one subentry, so that they fit into the row of an entry.
pub const COLLECTIVE_SUBENTRY_OCTETS_MAX: usize = 65_535;

/// Maximum number of dynamic groups whose members are found. If there are more, only the groups with the lowest entry
/// ids have members.
pub const DYNAMIC_GROUPS_MAX: usize = if cfg!(test) { 20 } else { 1_000 };

/// Maximum total length of the memberURL values of all dynamic groups.
pub const DYNAMIC_GROUP_OCTETS_MAX: usize = 1 << 20;

/// Maximum number of notices about policies that cannot be applied as written. Further notices are dropped.
pub const POLICY_NOTICES_MAX: usize = 100;

/// Maximum number of names in the setting `secret_attributes`.
pub const SECRET_ATTRIBUTES_MAX: usize = 1_000;

/// Maximum length of the name of a schema text, in letters.
pub const SCHEMA_NAME_MAX: usize = 64;

/// Maximum number of values of an attribute, before or after a change, that are compared if the requester may write
/// only some of the values.
pub const VALUES_COMPARED_MAX: usize = 1_000;

/// Default number of records that the log keeps. Older records are trimmed, a few with every commit.
pub const LOG_RECORDS_KEPT: u64 = 1_000_000;

/// Maximum number of records trimmed with one commit. This number limits the duration of commits after the setting is
/// lowered.
pub const LOG_TRIM_SLICE: usize = 256;

const _: () = assert!(NAME_KEY_MAX + 20 <= 511 && INDEX_KEY_MAX + 4 <= 511);
const _: () = assert!(TABLE_VALUE_COUNT_MIN < INLINE_VALUE_COUNT_MAX && KEY_HASH_SIZE < INDEX_KEY_MAX);

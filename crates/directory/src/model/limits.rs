//! Every bound of this crate in one place.

/// Names of an entry that keys for DIGEST-MD5 are made for: its first values of the identity attributes.
pub const DIGEST_NAMES_MAX: usize = 4;
/// Octets of such a name.
pub const DIGEST_NAME_SIZE_MAX: usize = 128;
/// Octets of the realm of the setting `sasl_realm`.
pub const REALM_SIZE_MAX: usize = 128;

/// Largest number a [`crate::model::csn::Csn`] can count within a microsecond (six hexadecimal digits).
pub const CSN_COUNT_MAX: u32 = 0xff_ffff;

/// Values longer than this many bytes are kept in rows of their own, so that reading an entry does not drag them
/// along and entry rows stay below the 2,000 bytes above which LMDB doubles their size.
pub const INLINE_VALUE_MAX: usize = 1_024;

/// An attribute with more values than this is kept one row a value, in the order of their normal keys. Up to this
/// many, values come back in the order in which they were given.
pub const INLINE_VALUE_COUNT_MAX: usize = 64;

/// An attribute kept one row a value goes back to the entry row when it has fewer values than this. Lower than
/// [`INLINE_VALUE_COUNT_MAX`], so that an attribute at the border does not move with every change.
pub const TABLE_VALUE_COUNT_MIN: usize = 32;

/// Longest normal key that an index row holds whole; the rest of a longer one is replaced by its hash.
pub const INDEX_KEY_MAX: usize = 256;

/// Normal values longer than this many bytes are not cut into grams: each would cost a row a byte.
pub const GRAMMED_VALUE_MAX: usize = 1_024;

/// A value with more different words than this has no rows by sound.
pub const CODES_PER_VALUE_MAX: usize = 128;

/// Entries whose index rows are made in one batch.
pub const INDEX_SLICE_ENTRIES_MAX: usize = 512;

/// Index rows made (a little more, where an entry has many) or removed in one batch: a few milliseconds of work, so
/// that changes of clients in between hardly wait.
pub const INDEX_SLICE_ROWS_MAX: usize = 2_048;

/// Longest normal name that a row key holds whole. LMDB's keys end at 511 bytes, the ids beside the name take 20.
pub const NAME_KEY_MAX: usize = 440;

/// Bytes of the hash that stands for the rest of a long key.
pub const KEY_HASH_SIZE: usize = 16;

/// Deepest tree: the parent chain of an entry never has more members.
pub const TREE_DEPTH_MAX: usize = 256;

/// Alias dereferences in one name before the answer is aliasDereferencingProblem.
pub const ALIAS_HOPS_MAX: usize = 16;

/// Aliases in a directory whose following a search is asked for; beyond, the answer is adminLimitExceeded.
pub const ALIASES_FOLLOWED_MAX: usize = 10_000;

/// Groups that access rules take somebody to be in, and sets of rules and containers that the rights under them are
/// kept of.
pub const GROUPS_OF_ASKER_MAX: usize = 10_000;
/// See [`GROUPS_OF_ASKER_MAX`].
pub const RIGHTS_KEPT_MAX: usize = 4_096;
/// Entries that name an asker, which a standing keeps; where there are more, each entry is looked at.
pub const ENTRIES_OF_ASKER_MAX: usize = 1_000;
/// Askers whose rights a snapshot keeps.
pub const STANDINGS_KEPT_MAX: usize = 1_024;
/// Changes that may end a standing that is kept, besides those of names in rules; one with more is made each time.
pub const SOURCES_KEPT_MAX: usize = 1_024;
/// Records that a snapshot reads to see which standings they end; behind more of them it forgets all.
pub const RECORDS_FOLLOWED_MAX: u64 = 256;
/// Bytes of a record that is read for that; a larger one ends all.
pub const TOUCHED_RECORD_MAX: usize = 64 << 10;
/// Attributes that the Get Effective Rights control names besides those that its search asks for.
pub const RIGHTS_ATTRIBUTES_MAX: usize = 100;
/// Access rules, and the octets of all their texts.
pub const ACCESS_RULES_MAX: usize = 1_000;

/// Containers whose DN a snapshot keeps.
pub const CONTAINERS_CACHED_MAX: usize = 4_096;

/// Search bases whose entry a snapshot keeps.
pub const BASES_CACHED_MAX: usize = 256;

/// Entry ids that a search collects and sorts (8 bytes each); where an index range or a container has more, it scans.
pub const COLLECTED_IDS_MAX: usize = 1 << 20;

/// Ids up to which a range of index keys is counted when a search is planned: about 4 ms.
pub const RANGE_COUNTED_MAX: u64 = 65_536;

/// Entries up to which a subtree is walked instead of scanning all entries: about 2 ms.
pub const SUBTREE_WALKED_MAX: u64 = 16_384;

/// Entries up to which a search for the presence of an attribute goes by its index: what most entries have is not worth
/// counting.
pub const PRESENCE_KEYS_MAX: u64 = 4_096;

/// Grams of a filter item that are made: some more than are looked up, because those of a text come several times.
pub const NEEDED_GRAMS_MAX: usize = 256;

/// Grams or sounds of a filter item that are looked up; the entry is held against all of it anyway.
pub const PIECES_LOOKED_UP_MAX: usize = 32;

/// Postings that narrow down the shortest one of a filter item.
pub const POSTINGS_INTERSECTED_MAX: usize = 6;

/// Candidates of a term of an *and* beyond which it is worth while to look for another term that narrows them.
pub const INTERSECTION_COUNT_MIN: u64 = 512;

/// A page of a search scans, instead of gathering ids anew for every page, where at least one entry in so many is a
/// candidate and the page is likely to be found among fewer entries than there are ids to gather.
pub const PAGE_SCAN_SHARE_MIN: u64 = 8;

/// The same where nodes tell, which are looked at several times faster than entries.
pub const PAGE_NODES_SHARE_MIN: u64 = 64;

/// Ids up to which two terms of an *and* are intersected when a search is planned: about 2 ms.
pub const INTERSECTION_COUNT_MAX: u64 = 131_072;

/// Bytes of values that are gathered for one result. An entry that has more is sent as a stream.
pub const GATHERED_MAX: usize = 256 << 10;

/// Entries below one that are deleted with it in one step, for which all other changes wait: some tenths of a second,
/// or one where others name all of them.
pub const TREE_DELETED_MAX: usize = if cfg!(test) { 100 } else { 20_000 };

/// Octets of a copy of an entry that the answer to a change has (RFC 4527).
pub const COPY_BYTES_MAX: usize = 256 << 10;

/// Octets of a cookie of content synchronization that is looked at.
pub const SYNC_COOKIE_MAX: usize = 1_000;

/// Records that a poll goes through to know what changed since the last one; with more, all entries are sent.
pub const SYNC_RECORDS_MAX: u64 = 20_000;

/// Entries that count as changed because another was renamed; with more, all are sent.
pub const SYNC_TOUCHED_MAX: usize = 10_000;

/// Records after which a search that listens is told a new cookie, though none of them concerns it: with an old one a
/// poll would send everything.
pub const COOKIE_RECORDS_MAX: u64 = if cfg!(test) { 200 } else { SYNC_RECORDS_MAX / 4 };

/// Snapshots that searches keep which listen for changes, because their clients have not read all yet. Above it the
/// slowest of them end, and above twice as many no more of them begin: each takes a view of the store.
pub const SHARED_SNAPSHOTS_MAX: usize = 200;

/// Records that a search goes through to tell of what came meanwhile; with more, the client is to poll.
pub const FOLLOWED_RECORDS_MAX: u64 = 100_000;

/// Entries that may be others by these; with more, the client is to poll.
pub const FOLLOWED_ENTRIES_MAX: usize = 100_000;

/// Entries below a renamed one of which each is told; with more, searches end that have them in their scope.
pub const FOLLOWED_MOVED_MAX: usize = if cfg!(test) { 100 } else { 10_000 };

/// Entries below renamed ones that are gone through to find the entries that name them; with more, all searches that
/// listen end.
pub const FOLLOWED_WALK_MAX: usize = 1_000_000;

/// Entries that one message of content synchronization names.
pub const SYNC_SET_MAX: usize = 500;

/// Entries that are sent as streams at a time, each with a snapshot of its own; for one more the answer is busy.
pub const STREAMS_MAX: usize = 32;

/// Values of a streamed entry that are gone through for the work that one candidate of a search costs.
pub const STREAMED_PER_ENTRY: usize = 4;

/// Postings that a search merges; where a filter needs more, it scans.
pub const POSTINGS_MERGED_MAX: usize = 256;

/// Names in one result that are looked up in one go, where the client wants to know what the entries are like: some 5
/// ms. A result with more is sent as a stream.
pub const DEREFERENCED_AT_ONCE_MAX: usize = if cfg!(test) { 100 } else { 2_000 };

/// Octets of the message of one result: the longest that BER readers take. A result that would be longer is not sent.
pub const MESSAGE_BYTES_MAX: usize = if cfg!(test) { 4 << 20 } else { ber::CONTENT_LEN_MAX };

/// Bytes that the keys of a sorted search may take: 32 MiB, some 400,000 entries by a short value. A search that
/// returns fewer, by its page or limit, keeps no more than these.
pub const SORT_BYTES_MAX: usize = if cfg!(test) { 64 << 10 } else { 32 << 20 };

/// Octets of a value's normal form that count when results are sorted. What is alike as far as that is in order of ids.
pub const SORT_VALUE_MAX: usize = 512;

/// Values of an entry that are looked at for the least, by which it is sorted, where they are not in order already. A
/// search that meets an entry with more is not sorted.
pub const SORT_VALUES_MAX: usize = if cfg!(test) { 100 } else { 1_000 };

/// Entries that a search without an index may look at unless a setting says otherwise: some 0.2 s of a core.
pub const UNINDEXED_EXAMINED_MAX: u64 = 100_000;

/// Spellings of object classes whose meaning a thread of an import keeps.
pub const CLASS_SETS_CACHED_MAX: usize = 4_096;

/// Octets of all schema texts of the settings together; the shipped schema has some 100,000.
pub const SCHEMA_TEXTS_BYTES_MAX: usize = 4 << 20;

/// Names in a setting that lists identities. Each is looked up when one of these settings decides.
pub const IDENTITIES_MAX: usize = 64;

/// Steps before and after the present one whose codes a policy may take, and takes where it says nothing (RFC 6238
/// section 5.2).
pub const TOTP_WINDOW_MAX: u32 = 10;
/// See [`TOTP_WINDOW_MAX`].
pub const TOTP_WINDOW_USUAL: u32 = 1;

/// Passwords of applications that a policy lets a user have.
pub const APP_PASSWORDS_MAX: u32 = 64;

/// Former passwords that a policy may keep: a new one is verified against each of them.
pub const PASSWORD_HISTORY_MAX: u32 = 64;

/// Failed attempts that are kept in an entry, whatever its policy says.
pub const PASSWORD_FAILURES_MAX: usize = 100;

/// Entries that are looked at as password policies.
pub const PASSWORD_POLICIES_MAX: usize = 10_000;

/// Most notices of policies that do not hold as they are written. More are left out.
pub const POLICY_NOTICES_MAX: usize = 100;

/// Names in the setting of secret attributes.
pub const SECRET_ATTRIBUTES_MAX: usize = 1_000;

/// Letters in the name of a schema text.
pub const SCHEMA_NAME_MAX: usize = 64;

/// Values of an attribute, before a change and after it, that are compared where somebody may write only some of them.
pub const VALUES_COMPARED_MAX: usize = 1_000;

/// Records that the log keeps unless a setting says otherwise; older ones are trimmed, a few with every commit.
pub const LOG_RECORDS_KEPT: u64 = 1_000_000;

/// Most records trimmed with one commit, so that a shorter log makes no commit long.
pub const LOG_TRIM_SLICE: usize = 256;

const _: () = assert!(NAME_KEY_MAX + 20 <= 511 && INDEX_KEY_MAX + 4 <= 511);
const _: () = assert!(TABLE_VALUE_COUNT_MIN < INLINE_VALUE_COUNT_MAX && KEY_HASH_SIZE < INDEX_KEY_MAX);

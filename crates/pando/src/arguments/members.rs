//! Members of the JSON objects that commands print with `--json`. The help of each command lists them.
//!
//! The members are stable: later versions may add members, but do not rename or remove members, or change their types.

const SEARCH: &str =
    "`dn`, `attributes`: for each name an array of values; a value that is not UTF-8 is `{\"base64\": ...}`";

const APPLY: &str = "`settings` (`new`, `changes`, `notes`, `applied`); of entries `operation`, `dn`, `place`, \
         `result`, `reason`, `attributes`; last `plan` and the counts `add`, `change`, `delete` (`plan`) or `added`, \
         `changed`, `deleted` (`apply`), `refused`";

/// Members of the JSON objects of each command. A row has the names of commands, separated by commas and without
/// `pando`, and the members in backquotes, with explanations.
pub(super) const MEMBERS: [(&str, &str); 60] = [
    ("init", "`node_file`, `settings_file`, `data`, `suffix`, `admin_dn`, `password_file`, `notes`"),
    ("doctor", "`check`, `weight` (`fine`, `warning`, `problem`), `text`"),
    ("support", "`file`, `parts`; nothing if the file goes to standard output"),
    (
        "verify",
        "for each finding `finding`, `repairable`; for each rule that entries break `note`; last `findings`, \
         `entries`, `rows`. With `--repair`: `finding`, `repaired`. With `--salvage`: `kind`, `text`",
    ),
    ("compact", "`bytes_before`, `bytes_after`"),
    ("backup make", "`position`, `written` (`nothing`, `entries`, `changes`), `bytes`, `removed_files`"),
    (
        "backup list",
        "`from`, `to`, `from_position`, `to_position`, `files`, `bytes`, `encrypted`, `verified` (`time`, \
         `position`)",
    ),
    ("backup verify", "for each finding `finding`; last `files`, `position`, `time`, `entries`, `rows`"),
    ("backup recover", "`change` (`add`, `change`, `name`), `dn`, `attributes`, `refused`"),
    ("restore", "`data`, `position`, `time`, `has_later_changes`"),
    (
        "import",
        "`entries`, `records`, `kept`, `bytes`, `micros`, `rejected`, `rejects_file`, `values_left_out`, \
         `unverifiable_passwords`, `policy_fault`, `later_fault`",
    ),
    ("migrate", "`product`, `folder`, `settings_file`, `questions`, `not_read`"),
    ("plan, apply", APPLY),
    ("index list", "`attribute`, `kinds`, `work`"),
    ("index add, index drop", "`attribute`, `kinds`: those that the index has now"),
    (
        "index advise",
        "`attribute`, `definition`, `bytes`, `searches`, `examined`, `returned`, `micros`, `refused`, `filters`",
    ),
    ("explain", "`explanation`: its lines"),
    ("access explain", "`allowed`, `verdict`, `rules` (`rule`, `line`), `notes`, `needed`"),
    (
        "access rehearse",
        "of a sample: `requesters`, `entries`, `changes`, `listed`, `not_listed`. Of a trail: first `operations`, \
         `from`, `to`, `changes`, `ways`, `not_listed`, `left_out`, `by_place`, `cut`, `link_unknown`; then \
         `requester`, `dn`, `gained`, `right`, `count`, `last`, `before`, `after`",
    ),
    ("access translate", "`access_rules`, `left_out`"),
    ("access history", "`position`, `time`, `requester`, `rules` (their number), `removed`, `added`"),
    ("access rollback", APPLY),
    ("audit", "the event"),
    (
        "audit verify",
        "for each damage `place`, `damage`; for each cut `place`, `torn`; last `damages`, `first_segment`, \
         `last_segment`, `events`, `blocks`, `anchors`, `position`, `lost`, `last_anchor`, `unanchored`, `key`",
    ),
    ("search", SEARCH),
    ("change", "`file`, `line`, `dn`, `operation`, `result`, `reason`"),
    ("user list, user show, group list, group show", SEARCH),
    ("user add", "`dn`, `password`"),
    ("user reset, account reset", "`dn`, `password`: `null` if it was given"),
    ("user lock, user unlock, account lock, account unlock", "`dn`, `locked`"),
    ("user set, group set, group add", "`dn`; of set also `changed`"),
    ("user delete, group delete", "`dn`, `deleted`"),
    ("group join, group leave", "`dn`, `added` or `removed`: DNs"),
    ("group members", "`dn`, `name`, `kind` (`entry`, `group`), `through`"),
    (
        "account show",
        "`dn`, `passwords` (their schemes), `applications`, `state`: an object with names of attributes",
    ),
    ("account totp", "`dn`, `secret`, `uri`"),
    ("account app-add, account app-remove", "`dn`, `application`; of a new one also `password`, `end`"),
    ("account app-list", "`dn`, `applications` (`application`, `end`, `last_used`)"),
    ("account report", "`schemes`, `unverifiable`: objects with counts"),
    ("undelete", "listed: `time`, `uuid`, `dn`, `requester`; brought back: `dn`, `entries`"),
    ("replica promote", "`promoted`"),
    ("passwd", "`value`"),
    ("ldif check", "for each finding `file`, `line`, `finding`; last `findings`, `records`"),
    (
        "ldif count",
        "`entries`, `additions`, `modifications`, `deletions`, `renames`, `values`, `value_bytes`, `lines`",
    ),
    ("compare", "`difference` (`only_first`, `only_second`, `values`), `dn`, `attributes`; last the summary"),
    ("top", "`micros`, `operations`, `examined`, `bytes_received`, `bytes_sent`, `address`, `dn`"),
    ("twin report", "one object with the whole report"),
    ("twin switch, twin back", "`answers_clients` (`old`, `new`)"),
    ("version", "`version`, `formats`, `features`, `build`"),
    ("cluster init", "`node`, `position`, `keys`, `created_topic`, `admin_dn`, `admin_password`"),
    ("cluster invite, cluster renew", "`file`, `node`"),
    ("cluster join, cluster reseed", "`node`; of a reseed also `source`"),
    ("cluster status", "an object with the names and values of `cn=Cluster,cn=monitor`"),
    ("cluster leave", "`left`"),
    ("cluster unregister", "`node`, `offset`"),
    ("cluster copy, cluster snapshot", "`folder`; of a snapshot also `entries`, `offset`"),
    ("cluster rotate-key", "`key`"),
    ("cluster generation", "`position`"),
    ("cluster fetch-keys", "`keys`, `of_node`"),
    ("cluster trim", "`messages`, `start`, `deleted`"),
];

/// Maximum width of a line of the help, in columns.
const WIDTH: usize = 110;

/// Returns the paragraph about members for the help of a command, or an empty text if the command has no members.
pub(super) fn help(path: &str) -> String {
    let Some((_, members)) =
        MEMBERS.iter().find(|(commands, _)| commands.split(", ").any(|name| name == path))
    else {
        return String::new();
    };
    let mut lines = vec![String::from(" ")];
    for word in members.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < WIDTH => *line += &format!(" {word}"),
            _ => lines.push(format!("  {word}")),
        }
    }
    format!("\n\nMembers of the objects of --json:\n{}", lines.join("\n"))
}

//! `pando group`: groups by their short names, and their members. The commands ask the running server.

use std::collections::{HashSet, VecDeque};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use client::Entry;
use ldap::{ChangeOperation, filter_value};
use serde_json::json;
use server::values::DnText;

use crate::exit;
use crate::named::{
    Assignment, Kind, ListArguments, Named, NamedArguments, USER, delete, done, ended, list, parse, set,
    show, with, with_defaults,
};
use crate::print::{self, Report};
use crate::table::Table;

pub(crate) const HELP: &str = "\
Asks the running server, as `pando search` does. A name is the value of cn, or a DN. Members are the uid of users or
the DN of any entry.

Examples:
  pando group add --data /var/lib/pando staff --member anna --member bert
  pando group join --data /var/lib/pando staff carla
  pando group members --data /var/lib/pando staff

Exit codes: as `pando verify`.";

/// The entries that this command treats as groups: their members are named by DN or found by URL.
const GROUP: Kind = Kind {
    word: "group",
    attribute: "cn",
    filter: "(|(objectClass=groupOfNames)(objectClass=groupOfMembers)(objectClass=groupOfUniqueNames)\
             (objectClass=groupOfURLs))",
    container: "ou=groups",
};

/// The options of `pando group`.
#[derive(Debug, Args)]
pub(crate) struct GroupArguments {
    #[command(subcommand)]
    what: GroupVerb,
}

#[derive(Debug, Subcommand)]
enum GroupVerb {
    /// Add a group: a groupOfNames if it has members, otherwise a groupOfMembers, which may be empty
    Add {
        #[command(flatten)]
        group: NamedArguments,
        /// Entry to add the group below [default: ou=groups below the suffix]
        #[arg(long, value_name = "DN")]
        parent: Option<DnText>,
        /// Member; may be given several times
        #[arg(long, value_name = "NAME")]
        member: Vec<String>,
        /// Additional attributes; they replace defaults
        #[arg(long, value_name = "ATTRIBUTE=VALUE")]
        set: Vec<Assignment>,
    },
    /// List groups as a table
    List(ListArguments),
    /// Show the attributes of a group
    Show(NamedArguments),
    /// Replace attributes of a group
    Set {
        #[command(flatten)]
        group: NamedArguments,
        /// Attribute and value; `ATTRIBUTE=` removes the attribute; repeat it for several values
        #[arg(value_name = "ATTRIBUTE=VALUE", required = true)]
        assignments: Vec<Assignment>,
    },
    /// Add members to a group
    Join(Members),
    /// Remove members from a group
    Leave(Members),
    /// List the members of a group, and those of the groups in it
    Members {
        #[command(flatten)]
        group: NamedArguments,
        /// List only the members of the group itself
        #[arg(long)]
        direct: bool,
    },
    /// Delete a group; its members stay
    Delete(NamedArguments),
}

#[derive(Debug, Args)]
struct Members {
    #[command(flatten)]
    group: NamedArguments,
    /// Members: users by uid, others by DN
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<String>,
}

pub(crate) fn run(arguments: &GroupArguments) -> ExitCode {
    let done = match &arguments.what {
        GroupVerb::Add { group, parent, member, set } => add(group, parent.as_ref(), member, set),
        GroupVerb::List(arguments) => return list(&GROUP, arguments, &["cn", "description"]),
        GroupVerb::Show(group) => return show(&GROUP, group, &["isMemberOf"]),
        GroupVerb::Set { group, assignments } => set(&GROUP, group, assignments),
        GroupVerb::Join(Members { group, members }) => {
            with(&GROUP, group, |named, dn| change_members(named, dn, ChangeOperation::Add, members))
        }
        GroupVerb::Leave(Members { group, members }) => {
            with(&GROUP, group, |named, dn| change_members(named, dn, ChangeOperation::Delete, members))
        }
        GroupVerb::Members { group, direct } => {
            return ended(with(&GROUP, group, |named, dn| members_of(named, dn, *direct)));
        }
        GroupVerb::Delete(group) => delete(&GROUP, group),
    };
    exit::finish(done)
}

fn add(
    group: &NamedArguments,
    parent: Option<&DnText>,
    members: &[String],
    set: &[Assignment],
) -> Result<Report, String> {
    let NamedArguments { server, name } = group;
    if name.contains('=') {
        return Err(format!("{name}: give the cn, and --parent for the place"));
    }
    let mut named = Named::connect(server)?;
    let parent = named.parent(&GROUP, parent)?;
    let class = if members.is_empty() { "groupOfMembers" } else { "groupOfNames" };
    let mut attributes = vec![("objectClass".to_owned(), class.to_owned()), ("cn".to_owned(), name.clone())];
    for member in members {
        attributes.push(("member".to_owned(), named.dn(&USER, member)?));
    }
    let dn = named.add(&GROUP, &parent, name, &with_defaults(set, attributes))?;
    Ok(Report::result(json!({ "dn": dn }), dn))
}

/// Adds or removes members in one change.
fn change_members(
    named: &mut Named,
    dn: &str,
    operation: ChangeOperation,
    members: &[String],
) -> Result<Report, String> {
    let found = members.iter().map(|member| named.dn(&USER, member)).collect::<Result<Vec<_>, _>>()?;
    let group = named.connection.entry(dn, &["objectClass"]).map_err(|error| error.to_string())?;
    let classes = group.map(|group| group.texts("objectClass")).unwrap_or_default();
    let is_unique = classes.iter().any(|class| class.eq_ignore_ascii_case("groupOfUniqueNames"));
    let attribute = if is_unique { "uniqueMember" } else { "member" };
    let values: Vec<&str> = found.iter().map(String::as_str).collect();
    done(named.connection.modify(dn, &[(operation, attribute, &values)]))?;
    let change = if operation == ChangeOperation::Add { "added" } else { "removed" };
    Ok(Report::done(json!({ "dn": dn, change: found }), format!("{dn}: {} {change}", found.len())))
}

/// Prints the members of a group breadth first. With `direct`, prints only those of the group itself. Each entry is
/// printed once. If it was found through a nested group, the first such group is printed with it.
fn members_of(named: &mut Named, dn: &str, direct: bool) -> Result<(), String> {
    let mut table = Table::new(["name", "kind", "through", "dn"]);
    let (mut text, mut seen) = (Vec::new(), HashSet::from([dn.to_lowercase()]));
    let mut groups = VecDeque::from([dn.to_owned()]);
    while let Some(group) = groups.pop_front() {
        let through = if group == dn { "" } else { group.as_str() };
        let filter = parse(&format!("(memberOf={})", filter_value(&group)))?;
        let mut found: Vec<Entry> = Vec::new();
        named.each(None, &filter, &["uid", "cn", "objectClass"], &mut |entry| {
            found.push(Entry::from(entry));
            Ok(())
        })?;
        for member in found.iter().filter(|member| seen.insert(member.dn.to_lowercase())) {
            let is_group =
                member.texts("objectClass").iter().any(|class| class.to_lowercase().starts_with("groupof"));
            let kind = if is_group { "group" } else { "entry" };
            let name = member.text("uid").or_else(|| member.text("cn")).unwrap_or_default();
            if is_group && !direct {
                groups.push_back(member.dn.clone());
            }
            if print::form().is_json {
                let through = (!through.is_empty()).then_some(through);
                println!("{}", json!({ "dn": member.dn, "name": name, "kind": kind, "through": through }));
            } else {
                let cells = [name.as_str(), kind, through, &member.dn].map(str::to_owned);
                table.row(cells.to_vec(), &mut text);
            }
        }
    }
    table.finish(&mut text);
    print!("{}", String::from_utf8_lossy(&text));
    Ok(())
}

//! `pando user`: users by their short names. The commands ask the running server.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use directory::settings::user_template::{NewUser, UserTemplate};
use serde_json::json;
use server::values::DnText;

use crate::account::{reset, set_lock, set_password};
use crate::exit;
use crate::named::{
    Assignment, ListArguments, Named, NamedArguments, USER, delete, list, set, show, with, with_defaults,
};
use crate::passwd;
use crate::print::Report;

pub(crate) const HELP: &str = "\
Asks the running server, as `pando search` does. A name is the value of uid, or a DN.

Examples:
  pando user add --data /var/lib/pando anna --full-name 'Anna Huber' --set mail=anna@example.com
  pando user add --data /var/lib/pando bert --template staff --full-name 'Bert Maier'
  pando user list --data /var/lib/pando --filter '(ou=Sales)'
  pando user set --data /var/lib/pando anna title=Engineer roomNumber=
  pando user lock --data /var/lib/pando anna

Exit codes: as `pando verify`.";

/// The options of `pando user`.
#[derive(Debug, Args)]
pub(crate) struct UserArguments {
    #[command(subcommand)]
    what: UserVerb,
}

#[derive(Debug, Subcommand)]
enum UserVerb {
    /// Add a user, and print a random password
    Add(Add),
    /// List users as a table
    List(ListArguments),
    /// Show the attributes and groups of a user
    Show(NamedArguments),
    /// Replace attributes of a user
    Set {
        #[command(flatten)]
        user: NamedArguments,
        /// Attribute and value; `ATTRIBUTE=` removes the attribute; repeat it for several values
        #[arg(value_name = "ATTRIBUTE=VALUE", required = true)]
        assignments: Vec<Assignment>,
    },
    /// Lock a user until the lock is removed
    Lock(NamedArguments),
    /// Unlock a user and reset the count of failed binds
    Unlock(NamedArguments),
    /// Set a new random password and print it
    Reset {
        #[command(flatten)]
        user: NamedArguments,
        /// Ask for the password, or read it from standard input, instead of generating one
        #[arg(long)]
        ask: bool,
    },
    /// Delete a user
    Delete(NamedArguments),
}

#[derive(Debug, Args)]
struct Add {
    #[command(flatten)]
    user: NamedArguments,
    /// Entry to add the user below [default: ou=people below the suffix]
    #[arg(long, value_name = "DN")]
    parent: Option<DnText>,
    /// Full name; its last word becomes sn [default: the short name]
    #[arg(long, value_name = "NAME")]
    full_name: Option<String>,
    /// Template in the setting user_templates; its attributes replace defaults
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Additional attributes; they replace defaults and those of the template
    #[arg(long, value_name = "ATTRIBUTE=VALUE")]
    set: Vec<Assignment>,
    /// Group of the POSIX account, if a rule of next_numbers sets uidNumber but not gidNumber
    #[arg(long, value_name = "GID", default_value_t = 100)]
    gid: u32,
    /// Add no POSIX account, even if next_numbers has a rule for uidNumber
    #[arg(long)]
    no_posix: bool,
    /// Set no password
    #[arg(long)]
    no_password: bool,
}

pub(crate) fn run(arguments: &UserArguments) -> ExitCode {
    let done = match &arguments.what {
        UserVerb::Add(add) => add.run(),
        UserVerb::List(arguments) => {
            return list(&USER, arguments, &["uid", "cn", "mail", "pwdAccountLockedTime"]);
        }
        UserVerb::Show(user) => return show(&USER, user, &["isMemberOf", "pwdAccountLockedTime"]),
        UserVerb::Set { user, assignments } => set(&USER, user, assignments),
        UserVerb::Lock(user) => with(&USER, user, |named, dn| set_lock(&mut named.connection, dn, true)),
        UserVerb::Unlock(user) => with(&USER, user, |named, dn| set_lock(&mut named.connection, dn, false)),
        UserVerb::Reset { user, ask } => with(&USER, user, |named, dn| {
            let password = ask.then(passwd::new_password).transpose()?;
            reset(&mut named.connection, dn, password.as_deref())
        }),
        UserVerb::Delete(user) => delete(&USER, user),
    };
    exit::finish(done)
}

impl Add {
    /// Adds the user and then sets the password, unless `--no-password` is given. The server generates and hashes the
    /// password.
    fn run(&self) -> Result<Report, String> {
        let NamedArguments { server, name } = &self.user;
        if name.contains('=') {
            return Err(format!("{name}: give the uid, and --parent for the place"));
        }
        let mut named = Named::connect(server)?;
        let full_name = self.full_name.as_deref().unwrap_or(name);
        let template = self.template.as_deref().map(|name| template(&mut named, name)).transpose()?;
        let parent = match template.as_ref().and_then(|template| template.parent.clone()) {
            Some(parent) if self.parent.is_none() => parent,
            _ => named.parent(&USER, self.parent.as_ref())?,
        };
        let surname = full_name.split_whitespace().next_back().unwrap_or(full_name);
        let mut defaults =
            vec![("objectClass", "inetOrgPerson"), ("uid", name), ("cn", full_name), ("sn", surname)];
        // The template contains the POSIX attributes, if users need any.
        let posix =
            if self.no_posix || template.is_some() { None } else { Posix::of(&mut named, self.gid, name)? };
        if let Some(posix) = &posix {
            defaults.extend(posix.attributes());
        }
        let defaults =
            defaults.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let user = NewUser { uid: name, full_name };
        let given = template.map(|template| template.attributes_of(user)).unwrap_or_default();
        let given: Vec<_> = given.into_iter().map(|(name, value)| Assignment(name, value)).collect();
        let attributes = with_defaults(&self.set, with_defaults(&given, defaults));
        let dn = named.add(&USER, &parent, name, &attributes)?;
        if self.no_password {
            return Ok(Report::result(json!({ "dn": dn, "password": null }), dn));
        }
        let password = set_password(&mut named.connection, &dn, None)
            .map_err(|error| format!("{dn} is added, but has no password: {error}"))?;
        let text = format!("{dn}\n{}", password.as_deref().unwrap_or_default());
        Ok(Report::result(json!({ "dn": dn, "password": password }), text))
    }
}

/// Returns a user template from the settings. The requester must be permitted to read the settings.
fn template(named: &mut Named, name: &str) -> Result<UserTemplate, String> {
    let settings = named.connection.entry("cn=config", &["pandoUserTemplate"]);
    let settings = settings.map_err(|error| error.to_string())?;
    let texts = settings.map(|settings| settings.texts("pandoUserTemplate")).unwrap_or_default();
    let templates = texts.iter().map(|text| UserTemplate::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<String> = templates.iter().map(|template| template.name.clone()).collect();
    let found = templates.into_iter().find(|template| template.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| match names.as_slice() {
        [] => "the setting user_templates has no template, or this identity may not read the settings"
            .to_owned(),
        names => format!("there is no template {name}; the setting user_templates has {}", names.join(", ")),
    })
}

/// Attributes of a POSIX account (RFC 2307), whose numbers the server chooses.
struct Posix {
    gid: String,
    home: String,
}

impl Posix {
    /// Returns the POSIX attributes of a new user. Returns `None` if the settings have no rule of next_numbers for
    /// uidNumber.
    fn of(named: &mut Named, gid: u32, name: &str) -> Result<Option<Posix>, String> {
        let settings = named.connection.entry("cn=config", &["pandoNextNumber"]);
        let rules = settings.map_err(|error| error.to_string())?;
        let rules = rules.map(|settings| settings.texts("pandoNextNumber")).unwrap_or_default();
        let has = |rule: &&String, name: &str| rule.to_ascii_lowercase().contains(name);
        let rule = rules.iter().find(|rule| has(rule, "uidnumber"));
        Ok(rule.map(|rule| Posix {
            gid: if has(&rule, "gidnumber") { NEXT.to_owned() } else { gid.to_string() },
            home: format!("/home/{name}"),
        }))
    }

    fn attributes(&self) -> [(&str, &str); 4] {
        [
            ("objectClass", "posixAccount"),
            ("uidNumber", NEXT),
            ("gidNumber", &self.gid),
            ("homeDirectory", &self.home),
        ]
    }
}

/// Value that the server replaces with the next free number.
const NEXT: &str = "{next}";

//! `pando migrate`: proposes settings from the configuration of another directory server.

use std::fs::{self, File};
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use client::{ClientError, Connection, Outcome};
use ldap::{ResultCode, Scope};
use migration::{ConfigEntry, ConfigValue, Configuration, Included, Product, Proposal, SCHEMA_FILE};
use serde_json::json;
use server::{ConfigError, ServeError, settings};

use crate::exit;
use crate::online::ServerArguments;
use crate::print::Report;

pub(crate) const HELP: &str = "\
Reads a slapd.conf, a folder slapd.d, LDIF of cn=config (slapcat -n 0, dse.ldif of 389 DS, config.ldif of OpenDJ), or
cn=config of a running server (--url), and writes into a new folder:
  settings.toml  settings of the directory: suffixes, indexes, access rules, limits, uniqueness and more
  node.toml      the node file: TLS, limits of clients
  policies.ldif  password policies, if the configuration has any
  schema.ldif    definitions of the schema, if the configuration has any
  decide.md      what to decide, what needs nothing, and what has no counterpart
Dumps of the data may be among the files: only access rules (aci) are taken from them.

Examples:
  pando migrate /etc/ldap/slapd.d --folder migration
  pando migrate dse.ldif schema/99user.ldif data.ldif --folder migration
  pando migrate --url ldaps://old.example.com --tls-ca ca.pem --bind-dn cn=config --password-file pw --folder migration

Exit codes:
  0  written, and nothing is left to decide
  2  the files are of no server that Pando knows, or cannot be read
  6  written: decide.md has questions";

/// The options of `pando migrate`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArguments {
    /// Files and folders of the configuration
    #[arg(value_name = "FILE", required_unless_present = "url")]
    files: Vec<PathBuf>,
    /// The folder to write, which must not exist
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    server: ServerArguments,
}

pub(crate) fn run(arguments: &MigrateArguments) -> ExitCode {
    let mut configuration = Configuration::default();
    for file in &arguments.files {
        if let Err(error) = read_path(&mut configuration, file) {
            return exit::refused(&format!("cannot read {}: {error}", file.display()));
        }
    }
    if let Some(url) = arguments.server.server(None) {
        let read = arguments.server.connect(&url).map_err(|error| error.to_string());
        let read = read.and_then(|mut connection| {
            read_server(&mut configuration, &mut connection).map_err(|error| format!("{url}: {error}"))
        });
        if let Err(error) = read {
            return exit::failure(&error);
        }
    }
    configuration.unread.iter().for_each(|unread| eprintln!("not read: {unread}"));
    let Some(mut proposal) = migration::propose(&configuration) else {
        return exit::refused(
            "this is no configuration of OpenLDAP, 389 DS or OpenDJ; over LDAP, cn=config must be readable",
        );
    };
    if let Err(error) = write(&arguments.folder, &mut proposal) {
        return exit::failure(&format!("cannot write {}: {error}", arguments.folder.display()));
    }
    let name = Product::of(&configuration).map_or("", Product::name);
    let (folder, questions) = (&arguments.folder, proposal.decisions());
    let settings = folder.join("settings.toml");
    let text = format!(
        "read the configuration of {name}, wrote {}\ndecide.md has {questions} questions\nnext: pando plan --data DIR \
         {}",
        folder.display(),
        settings.display()
    );
    let object = json!({
        "product": name, "folder": folder.to_string_lossy(), "settings_file": settings.to_string_lossy(),
        "questions": questions, "not_read": configuration.unread,
    });
    Report::done(object, text).print();
    if proposal.decisions() == 0 && configuration.unread.is_empty() {
        ExitCode::SUCCESS
    } else {
        exit::some_rejected()
    }
}

/// Reads a slapd.conf, an LDIF file, or all LDIF files in and below a directory. A file precedes the directory with the
/// same name, as in slapd.d.
fn read_path(configuration: &mut Configuration, path: &Path) -> io::Result<()> {
    if path.is_dir() {
        let mut files: Vec<PathBuf> =
            fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
        files.retain(|file| file.is_dir() || file.extension().is_some_and(|extension| extension == "ldif"));
        files.sort_by_key(|file| (file.with_extension(""), file.is_dir()));
        return files.iter().try_for_each(|file| read_path(configuration, file));
    }
    let name = path.display().to_string();
    if path.extension().is_some_and(|extension| extension == "conf") {
        let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
        migration::read_slapd_conf(configuration, &name, &text, &mut include);
        return Ok(());
    }
    configuration.read_ldif(&name, BufReader::new(File::open(path)?));
    Ok(())
}

/// Reads a file that is included by slapd.conf.
fn include(name: &str) -> Included {
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension == "schema") {
        // Pando already has the definitions of OpenLDAP's own schema files.
        return Included::Schema;
    }
    match fs::read(path) {
        Ok(text) => Included::Text(String::from_utf8_lossy(&text).into_owned()),
        Err(error) => Included::Unreadable(error.to_string()),
    }
}

/// Reads `cn=config`, the user-defined schema definitions, and the access rules in the data.
fn read_server(configuration: &mut Configuration, connection: &mut Connection) -> Result<(), ClientError> {
    let mut search = |base: &str, scope, filter: &str, attributes: &[&str]| {
        let reply = connection.search(base, scope, filter, attributes)?;
        let Outcome { code, diagnostic, .. } = reply.outcome;
        // Not every server has an entry `cn=schema`.
        if code != ResultCode::SUCCESS && code != ResultCode::NO_SUCH_OBJECT {
            configuration
                .unread
                .push(format!("all of \"{base}\" that matches {filter}: {code}: {diagnostic}"));
        }
        Ok::<_, ClientError>(reply.entries)
    };
    let everything = "(objectClass=*)";
    let entries = search("cn=config", Scope::WholeSubtree, everything, &["*"])?;
    let schema = search("cn=schema", Scope::BaseObject, everything, &["attributeTypes", "objectClasses"])?;
    let root = search("", Scope::BaseObject, everything, &["namingContexts"])?;
    let mut data = Vec::new();
    for suffix in root.iter().flat_map(|root| root.texts("namingContexts")) {
        data.extend(search(&suffix, Scope::WholeSubtree, "(aci=*)", &["aci"])?);
    }
    configuration.entries.extend(entries.iter().map(config_entry));
    for mut schema in schema.iter().map(config_entry) {
        // Keep only user-defined definitions. All others were shipped with the server.
        schema
            .values
            .retain(|value| value.value.contains("'user defined'") || value.value.contains("99-user"));
        configuration.entries.push(schema);
    }
    for entry in &data {
        configuration.add_data_rules(&entry.dn, &entry.texts("aci"));
    }
    Ok(())
}

fn config_entry(entry: &client::Entry) -> ConfigEntry {
    let values = entry.attributes.iter().flat_map(|attribute| {
        let name = attribute.description.split(';').next().unwrap_or_default().to_ascii_lowercase();
        attribute.values.iter().map(move |value| ConfigValue {
            place: entry.dn.clone(),
            name: name.clone(),
            value: String::from_utf8_lossy(value).into_owned(),
        })
    });
    ConfigEntry { dn: entry.dn.clone(), values: values.collect() }
}

fn write(folder: &Path, proposal: &mut Proposal) -> io::Result<()> {
    fs::create_dir(folder)?;
    let put = |name: &str, text: &str| {
        if text.is_empty() {
            return Ok(());
        }
        let mut file = File::create(folder.join(name))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    put(SCHEMA_FILE, &proposal.schema())?;
    put("policies.ldif", proposal.policies())?;
    put("node.toml", &proposal.node())?;
    let mut settings = proposal.settings();
    loop {
        put("settings.toml", &settings)?;
        let invalid = invalid_lines(&folder.join("settings.toml"));
        let mut lines: Vec<String> = settings.lines().map(str::to_owned).collect();
        let mut is_mended = false;
        for (number, reason) in invalid {
            let Some(line) = number.checked_sub(1).and_then(|index| lines.get_mut(index)) else { continue };
            if line.ends_with('[') || line.starts_with(['#', '[']) || line.is_empty() {
                continue;
            }
            proposal.leave_out(line.trim().trim_end_matches(','), &reason);
            line.insert_str(0, "# ");
            is_mended = true;
        }
        if !is_mended {
            break;
        }
        settings = lines.join("\n") + "\n";
    }
    put("decide.md", &proposal.page())
}

/// Returns the invalid lines of a settings file, each with the reason. `pando plan` reports problems in other files,
/// such as a schema file.
fn invalid_lines(file: &Path) -> Vec<(usize, String)> {
    let errors = match settings::read(file).and_then(|read| read.check()) {
        Err(ServeError::Settings(errors)) => errors,
        _ => return Vec::new(),
    };
    let here = errors.into_iter().filter_map(|error| match error {
        ConfigError::File { file: of, line, what } if of == file => Some((line, what)),
        _ => None,
    });
    here.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldap::{Controls, LdapResult, MessageId, ResponseOp, response};
    use std::os::unix::net::UnixStream;

    /// Regression test: the results of the searches were ignored, so that a size limit of the server gave only some of
    /// the access rules without a word.
    #[test]
    fn a_search_that_the_server_does_not_finish_is_reported() {
        let (own, mut server) = UnixStream::pair().unwrap();
        let codes = [ResultCode::SIZE_LIMIT_EXCEEDED, ResultCode::NO_SUCH_OBJECT, ResultCode::SUCCESS];
        for (id, code) in (1..).zip(codes) {
            let (result, mut answer) = (LdapResult::new(code, "said"), Vec::new());
            response::encode_result(
                &mut answer,
                MessageId(id),
                ResponseOp::SearchDone,
                &result,
                Controls::NONE,
            );
            server.write_all(&answer).unwrap();
        }
        let (mut configuration, mut connection) =
            (Configuration::default(), Connection::over_local(own).unwrap());
        read_server(&mut configuration, &mut connection).unwrap();
        let expected = "all of \"cn=config\" that matches (objectClass=*): sizeLimitExceeded: said";
        assert_eq!(configuration.unread, [expected]);
    }
}

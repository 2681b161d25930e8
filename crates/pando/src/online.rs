//! Options of commands that ask a running server. The options name the server's address, and the identity with which to
//! bind.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use client::{ClientError, Connection, Tls};
use directory::catalog::VirtualAttribute;
use ldap::{FilterBuf, FilterError, ResultCode, Scope, ServerUrl};
use schema::{AttributeUsage, Schema, SchemaBuilder};
use server::values::DnText;

use crate::data_arguments::DataArguments;

/// Maximum wait for the next message of a response. It is long, because a search that reads all entries may find no
/// match for a long time.
const SILENCE_MAX: Duration = Duration::from_secs(3_600);

/// Data directory of the service that the Debian package installs.
const DATA_OF_THE_PACKAGE: &str = "/var/lib/pando";

/// Options for the server to ask and the identity to bind as.
#[derive(Debug, Default, Args)]
pub(crate) struct ServerArguments {
    /// Ask the server at this address, ldap://HOST:PORT, ldaps://HOST:PORT or ldapi://%2FPATH
    #[arg(long, value_name = "URL", conflicts_with = "online")]
    url: Option<ServerUrl>,
    /// Ask the server of the data directory, through its socket there
    #[arg(long)]
    online: bool,
    /// Bind as this entry with a password [default: the identity of the socket's user; anonymous over the network]
    #[arg(long, value_name = "DN", env = "PANDO_BIND_DN")]
    bind_dn: Option<DnText>,
    /// File with the password for --bind-dn; one newline at its end is ignored [default: ask at the terminal]
    #[arg(long, value_name = "FILE", env = "PANDO_BIND_PASSWORD_FILE", requires = "bind_dn")]
    password_file: Option<PathBuf>,
    /// File with the certificate authorities, in PEM form, that verify the server's certificate; with ldap://, use
    /// StartTLS
    #[arg(long, value_name = "FILE", requires = "url")]
    tls_ca: Option<PathBuf>,
}

/// Reason why a server could not be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OnlineError {
    #[error("cannot connect to {url}: {error}{}", hint(url, error))]
    Connect { url: ServerUrl, error: ClientError },
    #[error("{url} refuses the bind: {code}: {diagnostic}")]
    Bind { url: ServerUrl, code: ldap::ResultCode, diagnostic: String },
    #[error("cannot read the password from the terminal: {0}; --password-file FILE names a file with it")]
    Ask(std::io::Error),
    #[error("cannot read {}: {error}", file.display())]
    Read { file: PathBuf, error: std::io::Error },
    #[error("{}: {error}", file.display())]
    Tls { file: PathBuf, error: client::TlsError },
}

/// Returns the remedy for an error of connecting.
fn hint(url: &ServerUrl, error: &ClientError) -> &'static str {
    // The handshake reports a refused certificate as invalid data.
    let is_untrusted = match error {
        ClientError::Io(error) => error.kind() == ErrorKind::InvalidData,
        ClientError::Unexpected(_) => true,
        _ => false,
    };
    match url {
        ServerUrl::Local(path) if path.ends_with(server::SOCKET_NAME) && !path.exists() => {
            "; is the directory being served?"
        }
        ServerUrl::Internet { tls: true, .. } if is_untrusted => {
            "; --tls-ca FILE says which certificates to trust"
        }
        _ => "",
    }
}

impl ServerArguments {
    /// Returns the server that `--url` names. With `--online`, returns the server of the data directory `data`. Returns
    /// `None` without these options.
    pub(crate) fn server(&self, data: Option<&Path>) -> Option<ServerUrl> {
        self.url.clone().or_else(|| data.filter(|_| self.online).map(socket_in))
    }

    /// Connects and binds.
    pub(crate) fn connect(&self, url: &ServerUrl) -> Result<Connection, OnlineError> {
        let ServerArguments { bind_dn, password_file, tls_ca, .. } = self;
        Identity {
            bind_dn: bind_dn.as_ref(),
            password_file: password_file.as_deref(),
            tls_ca: tls_ca.as_deref(),
        }
        .connect(url)
    }
}

/// Identity with which to bind, and certificate authorities that verify the server's certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity<'a> {
    pub(crate) bind_dn: Option<&'a DnText>,
    pub(crate) password_file: Option<&'a Path>,
    pub(crate) tls_ca: Option<&'a Path>,
}

impl Identity<'_> {
    /// Connects and binds.
    pub(crate) fn connect(&self, url: &ServerUrl) -> Result<Connection, OnlineError> {
        let failed = |error| OnlineError::Connect { url: url.clone(), error };
        let mut connection = Connection::open_url(url, self.tls()?.as_ref()).map_err(failed)?;
        connection.set_timeout(SILENCE_MAX).map_err(failed)?;
        let outcome = match (self.bind_dn, url) {
            (Some(dn), _) => Some(connection.bind(dn.as_str(), &self.password(dn)?)),
            (None, ServerUrl::Local(_)) => Some(connection.bind_external(None)),
            (None, ServerUrl::Internet { .. }) => None,
        };
        match outcome.transpose().map_err(failed)? {
            Some(outcome) if !outcome.is_success() => {
                let (code, diagnostic) = (outcome.code, outcome.diagnostic);
                Err(OnlineError::Bind { url: url.clone(), code, diagnostic })
            }
            _ => Ok(connection),
        }
    }

    fn tls(&self) -> Result<Option<Tls>, OnlineError> {
        let Some(file) = self.tls_ca else { return Ok(None) };
        let read = |error| OnlineError::Read { file: file.to_owned(), error };
        let pem = std::fs::read(file).map_err(read)?;
        Tls::authorities(&pem).map(Some).map_err(|error| OnlineError::Tls { file: file.to_owned(), error })
    }

    fn password(&self, dn: &DnText) -> Result<String, OnlineError> {
        match self.password_file {
            Some(file) => password(file),
            None => {
                rpassword::prompt_password(format!("Password of {}: ", dn.as_str())).map_err(OnlineError::Ask)
            }
        }
    }
}

/// Options for the server of a data directory on this machine, or for any server.
#[derive(Debug, Args)]
pub(crate) struct TargetArguments {
    #[command(flatten)]
    data: DataArguments,
    #[command(flatten)]
    server: ServerArguments,
}

impl TargetArguments {
    /// Returns the options that name the data directory.
    pub(crate) fn data(&self) -> &DataArguments {
        &self.data
    }

    /// Returns the options that name the server.
    pub(crate) fn server(&self) -> &ServerArguments {
        &self.server
    }

    /// Connects and binds. Without options, connects to the server of the Debian package, if its socket exists.
    pub(crate) fn connect(&self) -> Result<Connection, String> {
        let data = self.data.directory().or_else(|| {
            let usual = Path::new(DATA_OF_THE_PACKAGE);
            usual.join(server::SOCKET_NAME).exists().then(|| usual.to_owned())
        });
        let url = self.server.server(data.as_deref()).or_else(|| data.as_deref().map(socket_in));
        let url = url.ok_or("say which server: --data DIR or --url URL")?;
        self.server.connect(&url).map_err(|error| error.to_string())
    }
}

/// Returns the message about a request that the server refused.
pub(crate) fn refusal(code: ResultCode, diagnostic: &str) -> String {
    format!("the server refuses that: {code}: {diagnostic}")
}

/// Scope of a search, with the names that ldapsearch uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ScopeName {
    Base,
    One,
    Sub,
    Children,
}

impl ScopeName {
    pub(crate) fn scope(self) -> Scope {
        match self {
            ScopeName::Base => Scope::BaseObject,
            ScopeName::One => Scope::SingleLevel,
            ScopeName::Sub => Scope::WholeSubtree,
            ScopeName::Children => Scope::Subordinate,
        }
    }
}

/// Returns the socket of the server of a data directory.
pub(crate) fn socket_in(data: &Path) -> ServerUrl {
    ServerUrl::local(data.join(server::SOCKET_NAME))
}

fn password(file: &Path) -> Result<String, OnlineError> {
    let failed = |error| OnlineError::Read { file: file.to_owned(), error };
    let text = std::fs::read_to_string(file).map_err(failed)?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// Returns the schema that a server publishes, together with the shipped schema. Returns only the shipped schema if the
/// server publishes none, or if the two contradict each other.
pub(crate) fn schema_of(connection: &mut Connection) -> Result<Arc<Schema>, ClientError> {
    let root = connection.entry("", &["subschemaSubentry"])?;
    let Some(subschema) = root.and_then(|root| root.text("subschemaSubentry")) else {
        return Ok(Schema::shipped());
    };
    let kinds = ["ldapSyntaxes", "attributeTypes", "objectClasses"];
    let Some(published) = connection.entry(&subschema, &kinds)? else { return Ok(Schema::shipped()) };
    let mut text = String::new();
    for kind in kinds {
        published.texts(kind).iter().for_each(|definition| text += &format!("{kind}: {definition}\n"));
    }
    let mut builder = SchemaBuilder::shipped();
    Ok(builder.add_text(&subschema, &text).build().unwrap_or_else(|_| Schema::shipped()))
}

/// Returns the names of operational attributes that servers store: those that clients may write, such as the `ref` of a
/// referral, and with `all` also those that only servers write. The selector `+` also includes computed attributes.
pub(crate) fn stored_operational(schema: &Schema, all: bool) -> impl Iterator<Item = &str> {
    let stored = schema.attribute_types().iter().filter(move |attribute_type| {
        attribute_type.usage != AttributeUsage::UserApplications
            && VirtualAttribute::of(attribute_type).is_none()
            && (all || !attribute_type.no_user_modification)
    });
    stored.map(|attribute_type| attribute_type.name())
}

pub(crate) fn parse_filter(text: &str) -> Result<FilterBuf, FilterError> {
    FilterBuf::parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificate_errors_suggest_the_option_for_authorities() {
        let url: ServerUrl = "ldaps://ldap.example.com".parse().unwrap();
        let hint = |kind: ErrorKind| hint(&url, &ClientError::Io(kind.into()));
        assert!(hint(ErrorKind::InvalidData).contains("--tls-ca"));
        assert_eq!([ErrorKind::ConnectionRefused, ErrorKind::Other].map(hint), ["", ""]);
    }
}

//! The options of `pando follow`.

use std::path::PathBuf;

use clap::Args;
use ldap::ServerUrl;
use server::values::DnText;

use super::ServeArguments;

/// The options of `pando follow`.
#[derive(Debug, Args)]
pub(crate) struct FollowArguments {
    /// The server to copy, ldap://HOST:PORT, ldaps://HOST:PORT or ldapi://%2FPATH
    #[arg(value_name = "URL", required_unless_present = "promote", conflicts_with = "promote")]
    pub(crate) source: Option<ServerUrl>,
    /// End the copy of the running server for good: it follows no longer, and clients may change the tree
    #[arg(long)]
    pub(crate) promote: bool,
    /// The entry at and below which entries are copied
    #[arg(long, value_name = "DN", required_unless_present = "promote")]
    pub(crate) base: Option<DnText>,
    /// The entry here that corresponds to --base [default: --base]; the suffix of a new data directory, unless --suffix
    /// is given
    #[arg(long, value_name = "DN")]
    pub(crate) to: Option<DnText>,
    /// Copy only the entries that match this filter (RFC 4515)
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Bind to the source as this entry [default: the identity of the socket's user, or of --certificate]
    #[arg(long, value_name = "DN")]
    pub(crate) bind_dn: Option<DnText>,
    /// File with the password for --bind-dn; one newline at its end is ignored
    #[arg(long, value_name = "FILE", requires = "bind_dn")]
    pub(crate) password_file: Option<PathBuf>,
    /// File with the certificate authorities of the source, in PEM form; with ldap://, use StartTLS
    #[arg(long, value_name = "FILE")]
    pub(crate) authorities: Option<PathBuf>,
    /// Bind to the source with this certificate, in PEM form
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// Key of --certificate, in PEM form
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// Attribute or object class not to copy; repeat the option for several
    #[arg(long, value_name = "NAME")]
    pub(crate) leave_out: Vec<String>,
    /// Attribute or object class with another name here; repeat the option for several
    #[arg(long, value_name = "OLD=NEW")]
    pub(crate) map: Vec<String>,
    #[command(flatten)]
    pub(crate) server: ServeArguments,
}

pub(crate) const HELP: &str = "\
Serves like `pando serve`, with a tree that is a copy of another server's and follows its changes. The options are those
of the table [follow] of the node file, in place of all such tables. An empty tree is filled by an import before clients
are served; later starts continue where the copy ended. Clients that change the tree are referred to the source.

`--promote` ends the copy, or that at --base (the name here) if there are several, through the socket in the data
directory. It prints the source's name of the last change that the copy has. Make the source read-only first. The server
does not follow again, whatever its settings say.

Examples:
  pando follow ldap://old.example.com --data /var/lib/pando --base dc=example,dc=com \\
    --bind-dn cn=admin,dc=example,dc=com --password-file secret --authorities old-ca.pem
  pando follow --promote --data /var/lib/pando

Exit codes: as `pando serve`; with --promote as `pando verify`.";

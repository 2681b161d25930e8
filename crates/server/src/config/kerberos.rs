//! The table `[kerberos]`. It determines which tickets are accepted, and how principals are mapped to users.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ldap::ServerUrl;
use sasl::gssapi::principal_parts;
use serde::Deserialize;
use system::gss::{Acceptor, GssMechanism};

use crate::config::ConfigError;
use crate::config::values::FromText;

/// First component of the service principals of LDAP servers.
const SERVICE: &str = "ldap/";

/// Keys of the table `[kerberos]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KerberosKeys {
    pub(crate) keytab: Option<PathBuf>,
    principal: Option<String>,
    realms: Option<Vec<String>>,
    attribute: Option<String>,
    listeners: Option<Vec<FromText<ServerUrl>>>,
}

/// Kerberos settings as stated in the node file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stated {
    keytab: PathBuf,
    principal: Option<String>,
    realms: Option<Vec<String>>,
    attribute: Option<String>,
    listeners: Option<Vec<ServerUrl>>,
}

/// Rules for Kerberos tickets.
pub struct KerberosRules {
    stated: Stated,
    kerberos: Arc<Acceptor>,
    negotiating: Arc<Acceptor>,
}

/// User to whom a principal is mapped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mapped<'a> {
    /// The user whose entry has the principal as a value of the attribute with this name.
    Attribute(&'a str),
    /// The user with this name.
    Name(&'a str),
}

impl KerberosRules {
    /// Returns the file with the server's key.
    pub(crate) fn keytab(&self) -> &Path {
        &self.stated.keytab
    }

    /// Returns true if the listener with this URL offers Kerberos. `listener` must be `None` for the socket in the data
    /// directory.
    pub(crate) fn are_for(&self, listener: Option<&ServerUrl>) -> bool {
        let listeners = self.stated.listeners.as_ref();
        listeners.is_none_or(|listeners| listener.is_some_and(|url| listeners.contains(url)))
    }

    /// Returns the acceptor for a GSS-API mechanism.
    pub(crate) fn acceptor(&self, mechanism: GssMechanism) -> &Arc<Acceptor> {
        match mechanism {
            GssMechanism::Kerberos => &self.kerberos,
            GssMechanism::Spnego => &self.negotiating,
        }
    }

    /// Maps the principal `client` to a user. `service` is the service of its ticket.
    ///
    /// # Errors
    /// The principal maps to no user. The text contains the reason for the operator.
    pub(crate) fn mapped<'a>(&'a self, client: &'a str, service: &str) -> Result<Mapped<'a>, String> {
        self.stated.mapped(client, service)
    }
}

impl Stated {
    fn mapped<'a>(&'a self, client: &'a str, service: &str) -> Result<Mapped<'a>, String> {
        // The keytab may contain keys of other services. Tickets for these services are refused.
        if self.principal.is_none() && !service.starts_with(SERVICE) {
            return Err(format!("its ticket is for {service:?}, which is no {SERVICE} principal"));
        }
        if let Some(attribute) = &self.attribute {
            return Ok(Mapped::Attribute(attribute));
        }
        let (name, realm) = principal_parts(client).ok_or("its name is none of a user")?;
        let is_trusted = match &self.realms {
            Some(realms) => realms.iter().any(|trusted| trusted == realm),
            None => principal_parts(service).is_some_and(|(_, own)| own == realm),
        };
        match is_trusted {
            true => Ok(Mapped::Name(name)),
            false => Err("its realm is not the server's own and not one of kerberos.realms".to_owned()),
        }
    }
}

impl PartialEq for KerberosRules {
    /// Only the stated settings are compared, because the keytab is read again for each ticket.
    fn eq(&self, other: &KerberosRules) -> bool {
        self.stated == other.stated
    }
}

impl Eq for KerberosRules {}

impl std::fmt::Debug for KerberosRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stated.fmt(f)
    }
}

/// Returns the rules of the table.
pub(super) fn kerberos_rules(table: KerberosKeys) -> Result<Option<Arc<KerberosRules>>, ConfigError> {
    let KerberosKeys { keytab, principal, realms, attribute, listeners } = table;
    let Some(keytab) = keytab else {
        return match principal.is_some() || realms.is_some() || attribute.is_some() || listeners.is_some() {
            true => Err(ConfigError::KerberosWithoutKeytab),
            false => Ok(None),
        };
    };
    let listeners = listeners.map(|urls| urls.into_iter().map(|FromText(url)| url).collect());
    let open = |mechanism| {
        Acceptor::open(mechanism, &keytab, principal.as_deref())
            .map(Arc::new)
            .map_err(|error| ConfigError::Keytab { file: keytab.clone(), what: error.to_string() })
    };
    // Kerberos is opened before SPNEGO, because the error of Kerberos describes a problem with the keytab. The error of
    // SPNEGO only reports that there is no mechanism to negotiate.
    let kerberos = open(GssMechanism::Kerberos)?;
    let negotiating = open(GssMechanism::Spnego)?;
    let stated = Stated { keytab, principal, realms, attribute, listeners };
    Ok(Some(Arc::new(KerberosRules { stated, kerberos, negotiating })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_of_trusted_realms_are_mapped_to_names() {
        let usual = Stated {
            keytab: PathBuf::new(),
            principal: None,
            realms: None,
            attribute: None,
            listeners: None,
        };
        let own = "ldap/directory.example.com@EXAMPLE.COM";
        assert_eq!(usual.mapped("anna@EXAMPLE.COM", own), Ok(Mapped::Name("anna")));
        assert!(usual.mapped("anna@EVIL.COM", own).is_err());
        assert!(usual.mapped("anna@example.com", own).is_err(), "case distinguishes realms");
        assert!(usual.mapped("anna\\@x@EXAMPLE.COM", own).is_err());
        assert!(usual.mapped("anna@EXAMPLE.COM", "host/directory.example.com@EXAMPLE.COM").is_err());
        let stated = Stated { realms: Some(vec!["B".to_owned()]), ..usual.clone() };
        assert_eq!(stated.mapped("anna@B", own), Ok(Mapped::Name("anna")));
        assert!(stated.mapped("anna@EXAMPLE.COM", own).is_err());
        let host = Stated { principal: Some("host/a@EXAMPLE.COM".to_owned()), ..usual.clone() };
        assert_eq!(host.mapped("anna@EXAMPLE.COM", "host/a@EXAMPLE.COM"), Ok(Mapped::Name("anna")));
        let whole = Stated { attribute: Some("krbPrincipalName".to_owned()), ..usual };
        assert_eq!(whole.mapped("anna@ANY", own), Ok(Mapped::Attribute("krbPrincipalName")));
    }
}

//! TLS between the driver and the servers: which targets use it, and how it starts.

use client::{ClientError, Connection, Tls};

use super::{DriveError, Options, Targets};

/// The StartTLS request (RFC 4511 section 4.14.1) as message 1.
pub(super) const START_TLS: [u8; 31] = *b"0\x1d\x02\x01\x01w\x18\x80\x161.3.6.1.4.1.1466.20037";

/// TLS settings of a target.
#[derive(Clone, Debug)]
pub(crate) struct Secured {
    pub(crate) tls: Tls,
    /// Host name that the certificate must have.
    pub(crate) host: String,
    /// Whether TLS starts with StartTLS. If false, TLS starts with the first octet.
    pub(crate) starts_plain: bool,
}

/// Returns the TLS settings of each target; `None` without TLS.
///
/// # Errors
/// TLS is required, but the options name no trusted authorities.
pub(crate) fn secured(targets: &Targets, options: &Options) -> Result<Vec<Option<Secured>>, DriveError> {
    // Connections to the null responder do not use TLS.
    let needs_tls = |is_ldaps: bool| (is_ldaps || options.start_tls) && !options.canned;
    let of = |(uri, (host, is_ldaps)): (&String, &(String, bool))| {
        if !needs_tls(*is_ldaps) {
            return Ok(None);
        }
        let why =
            "TLS needs trusted authorities: give --tls-ca FILE, or --tls-insecure to trust any certificate";
        let untold = || DriveError::Target { uri: uri.clone(), why: why.to_owned() };
        let tls = options.tls.clone().ok_or_else(untold)?;
        Ok(Some(Secured { tls, host: host.clone(), starts_plain: !is_ldaps }))
    };
    targets.uris.iter().zip(&targets.hosts).map(of).collect()
}

/// Opens a connection to the first target, for requests before and after the measurement.
pub(crate) fn connect(targets: &Targets, options: &Options) -> Result<Connection, DriveError> {
    let address = targets.addresses[0];
    let connected = match secured(targets, options)?.first() {
        Some(Some(Secured { tls, host, starts_plain: false })) => Connection::open_tls(address, tls, host),
        Some(Some(Secured { tls, host, .. })) => {
            Connection::open(address).and_then(|connection| connection.start_tls(tls, host))
        }
        _ => Connection::open(address),
    };
    connected.map_err(|source: ClientError| DriveError::Server {
        what: format!("cannot connect to {}", targets.uris[0]),
        source,
    })
}

/// Describes TLS for a result: protocol and cipher, how it started, and whether the certificate was checked.
pub(crate) fn stated(agreed: Option<&str>, secured: &[Option<Secured>]) -> String {
    let (Some(agreed), Some(secured)) = (agreed, secured.iter().flatten().next()) else {
        return "none".to_owned();
    };
    let protocol = if secured.starts_plain { "StartTLS" } else { "ldaps" };
    let checked = if secured.tls.is_checked() { "checked" } else { "not checked" };
    let resumed = if secured.tls.is_resuming() { "sessions resumed" } else { "no session resumed" };
    format!("{agreed}, {protocol}, certificate {checked}, {resumed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_tls_request_decodes() {
        let request =
            ldap::Request::Extended(ldap::ExtendedRequest { name: ldap::oids::START_TLS, value: None });
        let mut message = Vec::new();
        ldap::Message { id: ldap::MessageId(1), request, controls: ldap::Controls::NONE }
            .encode(&mut message);
        assert_eq!(message, START_TLS);
    }

    #[test]
    fn ldaps_requires_an_option_about_trusted_certificates() {
        let targets = Targets::resolve(&["ldap://127.0.0.1:1389", "ldaps://127.0.0.1"]).unwrap();
        assert_eq!(targets.addresses()[1].port(), 636);
        let mut options = Options::default();
        assert!(matches!(secured(&targets, &options), Err(DriveError::Target { .. })));
        options.tls = Tls::insecure().ok();
        let which = |options: &Options| -> Vec<Option<bool>> {
            let all = secured(&targets, options).unwrap();
            all.iter().map(|one| one.as_ref().map(|secured| secured.starts_plain)).collect()
        };
        assert_eq!(which(&options), [None, Some(false)]);
        options.start_tls = true;
        assert_eq!(which(&options), [Some(true), Some(false)]);
        options.canned = true;
        assert_eq!(which(&options), [None, None]);
    }
}

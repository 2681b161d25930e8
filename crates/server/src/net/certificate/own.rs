//! The server's own certificate, and the small authority that signs it.
//!
//! If the settings name no certificate, the first start creates these files in the folder `tls` of the data directory:
//!
//! | file | mode | content |
//! |---|---|---|
//! | `authority.pem` | 0644 | certificate of the authority, which clients trust |
//! | `authority-key.pem` | 0600 | its private key |
//! | `certificate.pem` | 0644 | certificate of the server, followed by the authority's certificate |
//! | `key.pem` | 0600 | private key of the server |
//!
//! The server renews its certificate, with the same key, while the authority's key is in the folder. Clients trust the
//! authority, so that a renewal changes nothing for them. An administrator may keep the authority's key elsewhere. In
//! that case the server uses its certificate until it expires, and warns before that.
//!
//! Data directories of earlier versions contain a self-signed certificate and no authority. The server uses that
//! certificate until it expires.

use std::fmt::{self, Display};
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SerialNumber,
};
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use schema::CertificateFacts;
use zeroize::Zeroizing;

use super::{TlsError, read_bounded};
use crate::limits::{
    CERTIFICATE_CLOCK_SKEW, CERTIFICATE_WATCH, OWN_AUTHORITY_DAYS, OWN_CERTIFICATE_DAYS,
    OWN_CERTIFICATE_RENEWAL_DAYS,
};

const DAY: i64 = 86_400;

const PRIVATE: u32 = 0o600;
const PUBLIC: u32 = 0o644;
const PUBLIC_FOLDER: u32 = 0o755;
/// Permission bit that allows all other users to pass through a folder.
const OTHERS_PASS: u32 = 0o001;

/// Maximum length of a common name (ub-common-name in RFC 5280 appendix A.1).
const COMMON_NAME_MAX: usize = 64;

/// Certificate of the server's own authority, which clients must trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Outermost folder above the file that other users cannot pass through; `None` if other users can read the file.
    pub closed_folder: Option<PathBuf>,
}

impl Display for AuthorityFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "clients verify this server by the authority in {}", self.path.display())?;
        match &self.closed_folder {
            None => Ok(()),
            Some(folder) => {
                let folder = folder.display();
                write!(formatter, "; copy it for users who may not enter {folder}")
            }
        }
    }
}

/// Files of the server's own certificate. Times are in seconds since 1970.
#[derive(Debug)]
pub(super) struct OwnCertificate {
    folder: PathBuf,
    /// Host names and addresses for which the certificate is valid.
    hosts: Vec<String>,
}

impl OwnCertificate {
    /// Opens the files in `folder`, or creates the missing files if there is no certificate. Renews the certificate if
    /// it is about to expire or lacks one of `hosts`.
    ///
    /// # Errors
    /// A file cannot be examined, read or written, or there is an authority without its key and no certificate.
    pub(super) fn open(folder: PathBuf, hosts: &[String], now: i64) -> Result<OwnCertificate, TlsError> {
        let own = OwnCertificate { folder, hosts: hosts.to_vec() };
        if is_there(&own.certificate())? {
            // The error is not fatal, because the present certificate may still be valid for months.
            if let Err(error) =
                own.renew_if(now, |facts, leaf| own.is_due(facts, now) || own.lacks_a_host(leaf))
            {
                tracing::error!("{error}; the server's certificate is not renewed");
            }
        } else {
            own.make(now)?;
            tracing::info!(
                "a certificate for {} was made, and an authority that signs it; clients trust {}, or name a \
                 certificate of your own with tls.certificate",
                hosts.join(", "),
                own.authority().display()
            );
        }
        Ok(own)
    }

    /// Renews the certificate if it is about to expire and the authority's key exists. Returns true if it was renewed.
    ///
    /// # Errors
    /// A file cannot be read or written, or the files of the authority do not match.
    pub(super) fn renew(&self, now: i64) -> Result<bool, TlsError> {
        self.renew_if(now, |facts, _| self.is_due(facts, now))
    }

    /// Returns advice for an administrator whose certificate is about to expire.
    pub(super) fn renewal_advice(&self, now: i64) -> String {
        let folder = self.folder.display();
        let again = format!(
            "stop the server, move {folder} away and start it: it makes a new authority, which clients must then trust"
        );
        let advice = match (self.authority().exists(), self.authority_key().exists()) {
            (false, _) => format!("it is self-signed and is not renewed: {again}"),
            (true, false) => format!(
                "the key of its authority is not there to renew it: put it back as {}, and the certificate is renewed \
                 within {} seconds",
                self.authority_key().display(),
                CERTIFICATE_WATCH.as_secs()
            ),
            (true, true) => match self.authority_facts() {
                Ok(facts) if facts.not_after - now < OWN_CERTIFICATE_RENEWAL_DAYS * DAY => {
                    format!("its authority ends, too: {again}")
                }
                _ => format!(
                    "it could not be renewed with {}: an earlier message says why",
                    self.authority_key().display()
                ),
            },
        };
        format!("{advice}; or name a certificate of your own with tls.certificate")
    }

    /// Returns the authority's certificate, which clients must trust; `None` if the server's certificate is
    /// self-signed.
    pub(super) fn for_clients(&self) -> Option<AuthorityFile> {
        let path = self.authority();
        let path = path.exists().then(|| fs::canonicalize(&path).unwrap_or(path))?;
        let is_closed = |folder: &&Path| {
            fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & OTHERS_PASS == 0)
        };
        let closed_folder = path.ancestors().skip(1).filter(is_closed).last().map(Path::to_owned);
        Some(AuthorityFile { path, closed_folder })
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    pub(super) fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }

    fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    fn authority_key(&self) -> PathBuf {
        self.folder.join("authority-key.pem")
    }

    /// Creates the missing files, the certificate last. Therefore all files exist if the certificate exists. Never
    /// replaces an existing key.
    fn make(&self, now: i64) -> Result<(), TlsError> {
        let (authority, authority_key) = (self.authority(), self.authority_key());
        let has_authority = is_there(&authority)?;
        if has_authority && !is_there(&authority_key)? {
            return Err(TlsError::new(
                &self.certificate(),
                format!(
                    "there is no certificate, and no key of the authority to sign one: put the key back as {}, or name \
                     a certificate of your own with tls.certificate",
                    authority_key.display()
                ),
            ));
        }
        let failed = |error: io::Error| TlsError::new(&self.folder, error);
        DirBuilder::new().recursive(true).mode(PUBLIC_FOLDER).create(&self.folder).map_err(failed)?;
        fs::set_permissions(&self.folder, Permissions::from_mode(PUBLIC_FOLDER)).map_err(failed)?;
        let signs = key_in(&authority_key)?;
        if !has_authority {
            let issued = authority_params(now)
                .and_then(|params| params.self_signed(&signs).map_err(|error| error.to_string()))
                .map_err(|error| TlsError::new(&authority, error))?;
            write_new(&authority, issued.pem().as_bytes(), PUBLIC)?;
        }
        key_in(&self.key())?;
        let chain = self.issue(now)?;
        write_new(&self.certificate(), chain.as_bytes(), PUBLIC)
    }

    fn renew_if(
        &self,
        now: i64,
        is_due: impl FnOnce(&CertificateFacts, &CertificateDer<'_>) -> bool,
    ) -> Result<bool, TlsError> {
        let file = self.certificate();
        let leaf = first_certificate(&file)?;
        let facts = facts(&file, &leaf)?;
        if !is_due(&facts, &leaf) || !is_there(&self.authority())? || !is_there(&self.authority_key())? {
            return Ok(false);
        }
        write_new(&file, self.issue(now)?.as_bytes(), PUBLIC)?;
        tracing::info!("the server's certificate in {} was renewed by its authority", file.display());
        Ok(true)
    }

    /// Returns true if the certificate is about to expire and the authority can sign a certificate that expires later.
    fn is_due(&self, facts: &CertificateFacts, now: i64) -> bool {
        facts.not_after - now < OWN_CERTIFICATE_RENEWAL_DAYS * DAY
            && self.authority_facts().is_ok_and(|authority| authority.not_after > facts.not_after)
    }

    fn lacks_a_host(&self, leaf: &CertificateDer<'_>) -> bool {
        let Ok(parsed) = ParsedCertificate::try_from(leaf) else { return true };
        let names = self.hosts.iter().filter_map(|host| ServerName::try_from(host.as_str()).ok());
        names.into_iter().any(|name| verify_server_name(&parsed, &name).is_err())
    }

    /// Signs a certificate for the server's key. Returns it in PEM form, followed by the certificate of the authority.
    fn issue(&self, now: i64) -> Result<String, TlsError> {
        let (authority, authority_key) = (self.authority(), self.authority_key());
        let failed = |error: String| TlsError::new(&self.certificate(), error);
        let trusted = first_certificate(&authority)?;
        let facts = facts(&authority, &trusted)?;
        let name = facts.subject.strip_prefix(COMMON_NAME_TYPE).unwrap_or_default();
        let mut signer = CertificateParams::default();
        signer.distinguished_name = named(name);
        signer.key_usages = authority_usages();
        let issuer = Issuer::new(signer, read_key(&authority_key)?);
        let key = read_key(&self.key())?;
        let signed = server_params(&self.hosts, now, facts.not_after)
            .and_then(|params| params.signed_by(&key, &issuer).map_err(|error| error.to_string()))
            .map_err(failed)?;
        check_signed(signed.der(), &trusted, now).map_err(|error| {
            let key = authority_key.display();
            TlsError::new(&authority, format!("the key in {key} does not belong to this authority: {error}"))
        })?;
        Ok(signed.pem() + &pem_of(&authority)?)
    }

    fn authority_facts(&self) -> Result<CertificateFacts, TlsError> {
        let file = self.authority();
        facts(&file, &first_certificate(&file)?)
    }
}

/// Prefix of the subject in [`CertificateFacts`] if the subject has only a common name.
const COMMON_NAME_TYPE: &str = "2.5.4.3=";

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

fn authority_usages() -> Vec<KeyUsagePurpose> {
    vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign]
}

/// Returns the parameters of a new authority. Its name is unique, because some clients confuse authorities with the
/// same name.
fn authority_params(now: i64) -> Result<CertificateParams, String> {
    let serial = random_octets()?;
    let mut params = dated(Vec::new(), now, now + OWN_AUTHORITY_DAYS * DAY)?;
    params.distinguished_name = named(&format!("Pando authority {}", HEXLOWER.encode(&serial[..4])));
    // The authority may sign certificates of servers only, not of further authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = authority_usages();
    params.serial_number = Some(serial_number(serial));
    Ok(params)
}

fn server_params(hosts: &[String], now: i64, not_after_max: i64) -> Result<CertificateParams, String> {
    let not_after = not_after_max.min(now + OWN_CERTIFICATE_DAYS * DAY);
    let mut params = dated(hosts.to_vec(), now, not_after)?;
    let is_short = |host: &&String| host.len() <= COMMON_NAME_MAX;
    params.distinguished_name = named(hosts.iter().find(is_short).map_or("pando", String::as_str));
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // The serial number is random. A number derived from the key would be the same after a renewal. NSS refuses two
    // certificates of an authority with the same number.
    params.serial_number = Some(serial_number(random_octets()?));
    Ok(params)
}

fn dated(names: Vec<String>, now: i64, not_after: i64) -> Result<CertificateParams, String> {
    let mut params = CertificateParams::new(names).map_err(|error| error.to_string())?;
    let time =
        |seconds| time::OffsetDateTime::from_unix_timestamp(seconds).map_err(|error| error.to_string());
    params.not_before = time(now - i64::try_from(CERTIFICATE_CLOCK_SKEW.as_secs()).unwrap_or(DAY))?;
    params.not_after = time(not_after)?;
    Ok(params)
}

/// Returns a positive serial number of at most 20 octets (RFC 5280 section 4.1.2.2).
fn serial_number(mut octets: [u8; 16]) -> SerialNumber {
    octets[0] = octets[0] & 0x3f | 0x40;
    SerialNumber::from_slice(&octets)
}

fn random_octets() -> Result<[u8; 16], String> {
    let mut octets = [0; 16];
    getrandom::fill(&mut octets).map_err(|error| error.to_string())?;
    Ok(octets)
}

/// Checks that clients accept `leaf` if they trust `authority`.
fn check_signed(
    leaf: &CertificateDer<'_>,
    authority: &CertificateDer<'static>,
    now: i64,
) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone())?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or(0)));
    let algorithms = ring::default_provider().signature_verification_algorithms;
    verify_server_cert_signed_by_trust_anchor(
        &ParsedCertificate::try_from(leaf)?,
        &roots,
        &[],
        now,
        algorithms.all,
    )
}

fn facts(file: &Path, certificate: &CertificateDer<'_>) -> Result<CertificateFacts, TlsError> {
    schema::certificate_facts(certificate).map_err(|fault| TlsError::new(file, fault))
}

fn first_certificate(file: &Path) -> Result<CertificateDer<'static>, TlsError> {
    CertificateDer::from_pem_slice(&read_bounded(file)?).map_err(|error| TlsError::new(file, error))
}

fn pem_of(file: &Path) -> Result<String, TlsError> {
    String::from_utf8(read_bounded(file)?).map_err(|error| TlsError::new(file, error))
}

/// Returns the key in a file. Creates the file if it does not exist.
fn key_in(file: &Path) -> Result<KeyPair, TlsError> {
    if is_there(file)? {
        return read_key(file);
    }
    let key = KeyPair::generate().map_err(|error| TlsError::new(file, error))?;
    write_new(file, Zeroizing::new(key.serialize_pem()).as_bytes(), PRIVATE)?;
    Ok(key)
}

fn read_key(file: &Path) -> Result<KeyPair, TlsError> {
    let pem = Zeroizing::new(pem_of(file)?);
    KeyPair::from_pem(&pem).map_err(|error| TlsError::new(file, format!("no private key: {error}")))
}

/// Returns true if a file with this name exists, even as a broken link. A file that cannot be examined is an error,
/// because it may contain a key that must not be replaced.
fn is_there(file: &Path) -> Result<bool, TlsError> {
    match fs::symlink_metadata(file) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(TlsError::new(file, error)),
    }
}

/// Writes a file with the mode `mode`, either completely or not at all.
fn write_new(file: &Path, content: &[u8], mode: u32) -> Result<(), TlsError> {
    let new = file.with_extension("new");
    let write = || {
        let mut opened =
            OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE).open(&new)?;
        // This sets the mode regardless of the umask.
        opened.set_permissions(Permissions::from_mode(mode))?;
        opened.write_all(content)?;
        opened.sync_all()?;
        fs::rename(&new, file)?;
        fs::File::open(file.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(|error| TlsError::new(file, error))
}

#[cfg(test)]
mod tests;

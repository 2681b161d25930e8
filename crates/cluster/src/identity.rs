//! Identity of a node in its cluster: a folder with its number, its certificate, the certificate of the cluster's
//! authority, and the keys of the log's messages.
//!
//! The first node creates the authority and stores its key. It *invites* further nodes. An invitation is one file with
//! everything that a node needs. It is a secret, because its holder can become that node. If the invitation contains
//! the authority's key, the new node may invite nodes too. Nodes with that key also renew certificates, which are valid
//! for ten years.

pub mod keys;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use replication::NodeId;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};

use crate::limits::CERTIFICATE_DAYS;

const IDENTITY_FILE: &str = "identity.toml";
const AUTHORITY_KEY_FILE: &str = "authority-key.pem";
const NEXT_NODE_FILE: &str = "next-node";
const INCARNATION_FILE: &str = "incarnation";
/// File with the reason why the data of the node must not be served. The data may be served only if this file does not
/// exist.
const DIVERGED_FILE: &str = "diverged";

/// Reason why a node's folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct IdentityError {
    path: PathBuf,
    what: String,
}

fn failed<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> IdentityError {
    move |error| IdentityError { path: path.to_owned(), what: error.to_string() }
}

/// Content of an identity file, and of an invitation: everything that makes a node a member of its cluster.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct MemberIdentity {
    /// Identity of the cluster: 16 random octets, in hexadecimal.
    cluster: String,
    node: u32,
    /// The first key of the cluster, in hexadecimal.
    key: String,
    /// Later keys that existed when the node was invited, by number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    keys: BTreeMap<String, String>,
    /// Certificate of the authority, in PEM.
    authority: String,
    certificate: String,
    certificate_key: String,
    /// Key of the authority. Present only in the invitations of nodes that may invite. A node stores it in a separate
    /// file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authority_key: Option<String>,
}

/// A new certificate for a node.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Renewal {
    cluster: String,
    node: u32,
    /// Certificate of the authority, in PEM. It is a new certificate for the same key, so it also verifies earlier
    /// certificates.
    authority: String,
    certificate: String,
    certificate_key: String,
}

/// Size of the range of node numbers that belongs to one node.
const NUMBERS_OF_A_NODE: u32 = 1_000;

/// Returns the first number that a node may assign, or `None` if it may assign none.
fn first_invited(node: u32) -> Option<u32> {
    match node {
        1 => Some(2),
        _ => node.checked_mul(NUMBERS_OF_A_NODE)?.checked_add(1),
    }
}

/// A node's identity.
pub struct Identity {
    folder: PathBuf,
    papers: MemberIdentity,
}

impl Identity {
    /// Creates the first node of a new cluster, with its authority.
    ///
    /// # Errors
    /// The folder has an identity, or cannot be written.
    pub fn create(folder: &Path) -> Result<Identity, IdentityError> {
        let authority_key = KeyPair::generate().map_err(failed(folder))?;
        let params = authority_params().map_err(failed(folder))?;
        let authority = params.self_signed(&authority_key).map_err(failed(folder))?.pem();
        let (mut cluster, mut key) = ([0; 16], [0; 32]);
        getrandom::fill(&mut cluster).and_then(|()| getrandom::fill(&mut key)).map_err(failed(folder))?;
        let issuer = Issuer::new(params, authority_key);
        let (certificate, certificate_key) = certificate(1, &issuer).map_err(failed(folder))?;
        let (cluster, key) = (HEXLOWER.encode(&cluster), HEXLOWER.encode(&key));
        let keys = BTreeMap::new();
        let authority_key = None;
        let papers = MemberIdentity {
            cluster,
            node: 1,
            key,
            keys,
            authority,
            certificate,
            certificate_key,
            authority_key,
        };
        let identity = Identity::keep(folder, papers)?;
        let private = write_private(folder, AUTHORITY_KEY_FILE, issuer.key().serialize_pem().as_bytes());
        private.and_then(|()| write_private(folder, NEXT_NODE_FILE, b"2")).map_err(failed(folder))?;
        Ok(identity)
    }

    /// Accepts an invitation: creates the identity of the node in `folder`.
    ///
    /// # Errors
    /// The file is not an invitation; the folder has an identity, or cannot be written.
    pub fn accept(folder: &Path, invitation: &Path) -> Result<Identity, IdentityError> {
        let mut papers = Identity::invited(folder, invitation)?.papers;
        let authority_key = papers.authority_key.take();
        let next = first_invited(papers.node);
        let identity = Identity::keep(folder, papers)?;
        if let (Some(key), Some(next)) = (authority_key, next) {
            let private = write_private(folder, AUTHORITY_KEY_FILE, key.as_bytes());
            private
                .and_then(|()| write_private(folder, NEXT_NODE_FILE, next.to_string().as_bytes()))
                .map_err(failed(folder))?;
        }
        Ok(identity)
    }

    /// Reads an invitation without writing the identity.
    ///
    /// # Errors
    /// The file is not an invitation.
    pub fn invited(folder: &Path, invitation: &Path) -> Result<Identity, IdentityError> {
        let text = fs::read_to_string(invitation).map_err(failed(invitation))?;
        let papers: MemberIdentity = toml::from_str(&text).map_err(failed(invitation))?;
        // The identity is checked before it is written.
        let identity = Identity { folder: folder.to_owned(), papers };
        identity.server_config().and(identity.keys().map(drop)).map_err(failed(invitation))?;
        Ok(identity)
    }

    fn keep(folder: &Path, papers: MemberIdentity) -> Result<Identity, IdentityError> {
        let file = folder.join(IDENTITY_FILE);
        if file.try_exists().map_err(failed(&file))? {
            return Err(failed(&file)("this data directory belongs to a cluster already"));
        }
        let text = toml::to_string(&papers).map_err(failed(folder))?;
        let result = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        result
            .and_then(|()| write_private(folder, IDENTITY_FILE, text.as_bytes()))
            .map_err(failed(folder))?;
        Ok(Identity { folder: folder.to_owned(), papers })
    }

    /// Reads the identity of a folder.
    ///
    /// # Errors
    /// The folder has no usable identity.
    pub fn open(folder: &Path) -> Result<Identity, IdentityError> {
        let file = folder.join(IDENTITY_FILE);
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let what =
                    "there is no identity: `pando cluster init` makes the first node, `join` the others";
                return Err(failed(&file)(what));
            }
            text => text.map_err(failed(&file))?,
        };
        let papers = toml::from_str(&text).map_err(failed(&file))?;
        Ok(Identity { folder: folder.to_owned(), papers })
    }

    /// Returns an invitation for one more node, and the number of that node. If `may_invite` is true, that node may
    /// invite further nodes. Nodes assign numbers without coordination: the first node assigns numbers from 2 on, and
    /// node N from 1000 N + 1 on.
    ///
    /// # Errors
    /// This node does not have the key of the authority, has no more numbers, or cannot write the folder. Or
    /// `may_invite` is true, and the new node would have no numbers to assign.
    pub fn invite(&self, may_invite: bool) -> Result<(String, NodeId), IdentityError> {
        let (key, key_file) = self.authority_key()?;
        let authority_key = may_invite.then(|| key.serialize_pem());
        let next_file = self.folder.join(NEXT_NODE_FILE);
        let next = fs::read_to_string(&next_file).map_err(failed(&next_file))?;
        let node: u32 = next.trim().parse().map_err(failed(&next_file))?;
        let first = first_invited(self.papers.node).unwrap_or(2);
        if node >= first.saturating_add(NUMBERS_OF_A_NODE - 2)
            || (may_invite && first_invited(node).is_none())
        {
            return Err(failed(&next_file)("this node has no more numbers to give: let another node invite"));
        }
        // The next number is written first, so that no number is assigned twice.
        write_private(&self.folder, NEXT_NODE_FILE, (node + 1).to_string().as_bytes())
            .map_err(failed(&next_file))?;
        let result = authority_params().and_then(|params| certificate(node, &Issuer::new(params, key)));
        let (certificate, certificate_key) = result.map_err(failed(&key_file))?;
        let keys = self.invited_keys()?;
        let papers =
            MemberIdentity { node, keys, certificate, certificate_key, authority_key, ..self.papers.clone() };
        Ok((toml::to_string(&papers).map_err(failed(&self.folder))?, NodeId(node)))
    }

    fn authority_key(&self) -> Result<(KeyPair, PathBuf), IdentityError> {
        let file = self.folder.join(AUTHORITY_KEY_FILE);
        let key = fs::read_to_string(&file).map_err(|error| {
            let who =
                "the first node, and nodes that it invited with --may-invite, have the key of the authority";
            failed(&file)(format!("{error}: {who}"))
        })?;
        Ok((KeyPair::from_pem(&key).map_err(failed(&file))?, file))
    }

    /// Returns a new certificate for an existing node, as the content of a file for
    /// [`take_renewal`](Identity::take_renewal) on that node. The file contains the private key of the certificate, so
    /// it is a secret like an invitation. It contains no key of the log.
    ///
    /// # Errors
    ///
    /// This node does not have the key of the authority.
    pub fn renewal(&self, node: NodeId) -> Result<String, IdentityError> {
        let (key, file) = self.authority_key()?;
        let authority = authority_params().and_then(|params| Ok(params.self_signed(&key)?.pem()));
        let result = authority_params().and_then(|params| certificate(node.0, &Issuer::new(params, key)));
        let (certificate, certificate_key) = result.map_err(failed(&file))?;
        let renewal = Renewal {
            cluster: self.papers.cluster.clone(),
            node: node.0,
            authority: authority.map_err(failed(&file))?,
            certificate,
            certificate_key,
        };
        toml::to_string(&renewal).map_err(failed(&file))
    }

    /// Installs a renewed certificate. The certificate takes effect at the next start of the node.
    ///
    /// # Errors
    ///
    /// The certificate is for another node or cluster, or cannot be used. The node then continues with its present
    /// certificate.
    pub fn take_renewal(&self, text: &str) -> Result<(), IdentityError> {
        let refused = failed(&self.folder);
        let renewal: Renewal = toml::from_str(text).map_err(failed(&self.folder))?;
        if (&renewal.cluster, renewal.node) != (&self.papers.cluster, self.papers.node) {
            return Err(refused(format!(
                "the renewal is for node {} of another cluster, or another node",
                renewal.node
            )));
        }
        let Renewal { authority, certificate, certificate_key, .. } = renewal;
        let papers = MemberIdentity { authority, certificate, certificate_key, ..self.papers.clone() };
        let renewed = Identity { folder: self.folder.clone(), papers };
        renewed.server_config()?;
        // Other nodes verify the new certificate with their copy of the authority's certificate.
        let (chain, _) = renewed.chain()?;
        let signed = webpki_accepts(&self.roots()?, chain.first());
        signed
            .map_err(|what| refused(format!("the certificate is not of this cluster's authority: {what}")))?;
        let text = toml::to_string(&renewed.papers).map_err(failed(&self.folder))?;
        write_private(&self.folder, IDENTITY_FILE, text.as_bytes()).map_err(failed(&self.folder))
    }

    /// Returns the end of the node's certificate, in seconds since 1970. Other nodes refuse the certificate after that
    /// time.
    pub fn certificate_end(&self) -> Option<i64> {
        let (chain, _) = self.chain().ok()?;
        Some(schema::certificate_facts(chain.first()?).ok()?.not_after)
    }

    /// Removes the identity: the node is no longer a member.
    pub fn discard(&self) {
        let own = [IDENTITY_FILE, AUTHORITY_KEY_FILE, NEXT_NODE_FILE, INCARNATION_FILE, DIVERGED_FILE];
        for name in own.into_iter().chain(keys::FILES) {
            let file = self.folder.join(name);
            if let Err(error) = fs::remove_file(&file)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, "{} is not removed", file.display());
            }
        }
        // The removal fails, and has no effect, if the folder contains anything else.
        let _ = fs::remove_dir(&self.folder);
    }

    /// Returns the node's number.
    pub fn node(&self) -> NodeId {
        NodeId(self.papers.node)
    }

    /// Returns the unique name of the cluster. The name of the cluster's consumer group in Kafka contains this name.
    pub fn cluster(&self) -> &str {
        &self.papers.cluster
    }

    /// Returns a number that is greater than at every earlier start. If this folder is an older copy of the node's
    /// folder, the clock must not have been set back since the last start.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn next_incarnation(&self, now_micros: u64) -> Result<u64, IdentityError> {
        let file = self.folder.join(INCARNATION_FILE);
        let last = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let next = now_micros.max(last.unwrap_or(0) + 1);
        write_private(&self.folder, INCARNATION_FILE, next.to_string().as_bytes()).map_err(failed(&file))?;
        Ok(next)
    }

    /// Returns the reason why the data of the node must not be served, if there is one.
    pub fn diverged(&self) -> Option<String> {
        fs::read_to_string(self.folder.join(DIVERGED_FILE)).ok()
    }

    /// Records the reason why the data must not be served. `None` removes the record, after the data was replaced.
    pub fn set_diverged(&self, cause: Option<&str>) -> Result<(), IdentityError> {
        let file = self.folder.join(DIVERGED_FILE);
        let noted = match cause {
            Some(cause) => write_private(&self.folder, DIVERGED_FILE, cause.as_bytes()),
            None => match fs::remove_file(&file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            },
        };
        noted.map_err(failed(&file))
    }

    /// Returns the TLS settings of the listener. The listener accepts only clients with a certificate of the cluster's
    /// authority.
    ///
    /// # Errors
    ///
    /// A certificate or key is damaged.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, IdentityError> {
        let provider = Arc::new(ring::default_provider());
        let roots = Arc::new(self.roots()?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        let (chain, key) = self.chain()?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(failed(&self.folder))?
            .with_client_cert_verifier(verifier.map_err(failed(&self.folder))?)
            .with_single_cert(chain, key)
            .map_err(failed(&self.folder))?;
        Ok(Arc::new(config))
    }

    /// Returns the TLS settings for connections to other nodes.
    ///
    /// # Errors
    /// A certificate or key is damaged.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, IdentityError> {
        let (chain, key) = self.chain()?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(failed(&self.folder))?
            .with_root_certificates(self.roots()?)
            .with_client_auth_cert(chain, key)
            .map_err(failed(&self.folder))?;
        Ok(Arc::new(config))
    }

    pub(super) fn roots(&self) -> Result<RootCertStore, IdentityError> {
        let mut roots = RootCertStore::empty();
        let authority =
            CertificateDer::from_pem_slice(self.papers.authority.as_bytes()).map_err(failed(&self.folder))?;
        roots.add(authority).map_err(failed(&self.folder))?;
        Ok(roots)
    }

    fn chain(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), IdentityError> {
        let certificate = CertificateDer::from_pem_slice(self.papers.certificate.as_bytes())
            .map_err(failed(&self.folder))?;
        let key = PrivateKeyDer::from_pem_slice(self.papers.certificate_key.as_bytes())
            .map_err(failed(&self.folder))?;
        Ok((vec![certificate], key))
    }
}

/// Checks that the roots verify a certificate at the present time. Returns the reason if they do not.
fn webpki_accepts(roots: &RootCertStore, certificate: Option<&CertificateDer<'_>>) -> Result<(), String> {
    let verifier = WebPkiClientVerifier::builder_with_provider(
        Arc::new(roots.clone()),
        Arc::new(ring::default_provider()),
    );
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    let certificate = certificate.ok_or("there is none")?;
    let verified = verifier.verify_client_cert(certificate, &[], UnixTime::now());
    verified.map(|_| ()).map_err(|error| error.to_string())
}

/// Returns the name in a node's certificate.
fn name_of(node: u32) -> String {
    format!("node-{node}.pando-cluster")
}

/// Returns the name that a node's certificate must have.
pub(crate) fn server_name(node: NodeId) -> Option<ServerName<'static>> {
    ServerName::try_from(name_of(node.0)).ok()
}

/// Returns the node that a certificate names.
pub(crate) fn node_of(certificate: &CertificateDer<'_>) -> Option<NodeId> {
    let subject = schema::certificate_facts(certificate).ok()?.subject;
    let number = subject.split_once('=')?.1.strip_prefix("node-")?.strip_suffix(".pando-cluster")?;
    number.parse().ok().map(NodeId)
}

fn authority_params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = dated(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "pando cluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn certificate(node: u32, issuer: &Issuer<'_, KeyPair>) -> Result<(String, String), rcgen::Error> {
    let mut params = dated(vec![name_of(node)])?;
    params.distinguished_name.push(DnType::CommonName, name_of(node));
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, issuer)?.pem(), key.serialize_pem()))
}

fn dated(names: Vec<String>) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    // The validity begins a day earlier, because the clock of another node may be slow.
    let now = time::OffsetDateTime::now_utc();
    params.not_before = now - time::Duration::days(1);
    params.not_after = now + time::Duration::days(CERTIFICATE_DAYS);
    Ok(params)
}

/// Writes a file atomically. Only the owner of the file can read it.
pub fn write_private(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let (file, new) = (folder.join(name), folder.join(format!("{name}.new")));
    let mut opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    opened.write_all(content)?;
    opened.sync_all()?;
    fs::rename(&new, &file)?;
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_identifies_the_node() {
        let authority = Issuer::new(authority_params().unwrap(), KeyPair::generate().unwrap());
        let (pem, _) = certificate(17, &authority).unwrap();
        let read = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        assert_eq!(node_of(&read), Some(NodeId(17)));
        let other = dated(Vec::new()).unwrap().self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(node_of(other.der()), None);
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pando-identity-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    /// Accepts an invitation by the node `by`, and returns the identity of the new node.
    fn invited(by: &Identity, may_invite: bool, name: &str) -> Identity {
        let (text, _) = by.invite(may_invite).unwrap();
        let (folder, file) = (folder(name), folder(&format!("{name}.invitation")));
        fs::write(&file, text).unwrap();
        let identity = Identity::accept(&folder, &file).unwrap();
        fs::remove_file(file).unwrap();
        assert!(!fs::read_to_string(folder.join(IDENTITY_FILE)).unwrap().contains("authority_key"));
        identity
    }

    /// Regression test: only the first node could invite other nodes, so a cluster that had lost its first node could
    /// not grow.
    #[test]
    fn inviting_nodes_assign_different_numbers() {
        let first = Identity::create(&folder("first")).unwrap();
        let second = invited(&first, true, "second");
        let third = invited(&first, false, "third");
        let further = [("2001", true), ("2002", false)].map(|(name, may)| invited(&second, may, name));
        let last = invited(&further[0], true, "2001001");
        let all = [&first, &second, &third, &further[0], &further[1], &last];
        assert_eq!(all.map(|identity| identity.node().0), [1, 2, 3, 2_001, 2_002, 2_001_001]);
        for identity in [&third, &further[1]] {
            assert!(identity.invite(false).err().unwrap().to_string().contains("--may-invite"));
        }
        // When the numbers have run out, no number is assigned twice.
        write_private(&second.folder, NEXT_NODE_FILE, b"2999").unwrap();
        assert!(second.invite(false).err().unwrap().to_string().contains("no more numbers"));
        let refused = last.invite(true).err().unwrap().to_string();
        assert!(refused.contains("no more numbers"), "its numbers would not fit: {refused}");
        for identity in all {
            fs::remove_dir_all(&identity.folder).unwrap();
        }
    }

    /// Regression test: certificates of nodes ended after ten years, without a warning or a way to renew them.
    #[test]
    fn a_renewed_certificate_is_only_for_its_node() {
        let first = Identity::create(&folder("renewing")).unwrap();
        let second = invited(&first, false, "renewed");
        let before = (second.papers.certificate.clone(), second.certificate_end().unwrap());
        let renewal = first.renewal(second.node()).unwrap();
        assert!(!renewal.contains(&first.papers.key) && second.renewal(second.node()).is_err());
        assert!(first.take_renewal(&renewal).is_err(), "the certificate is for another node");
        let stranger = Identity::create(&folder("stranger")).unwrap();
        let foreign = stranger.renewal(second.node()).unwrap().replace(stranger.cluster(), first.cluster());
        let refused = second.take_renewal(&foreign).unwrap_err().to_string();
        assert!(refused.contains("not of this cluster's authority"), "{refused}");
        second.take_renewal(&renewal).unwrap();
        let read = Identity::open(&second.folder).unwrap();
        assert!(read.papers.certificate != before.0 && read.certificate_end().unwrap() >= before.1);
        assert_eq!((&read.papers.key, read.node()), (&second.papers.key, second.node()));
        // Nodes that have only the authority's earlier certificate accept the renewed one.
        let (chain, _) = read.chain().unwrap();
        assert_eq!(webpki_accepts(&first.roots().unwrap(), chain.first()), Ok(()));
        for identity in [first, second, stranger] {
            fs::remove_dir_all(&identity.folder).unwrap();
        }
    }
}

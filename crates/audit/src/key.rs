//! The key of a node, which signs anchors.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use crate::error::AuditError;
use crate::format::SIGNATURE_LEN;

/// The private key of a node.
pub struct NodeKey(Ed25519KeyPair);

impl std::fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NodeKey({})", self.public())
    }
}

impl NodeKey {
    /// Loads the key in the file `path`. Creates the file with a new key if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read or created, or contains no key.
    pub fn load_or_create(path: &Path) -> Result<NodeKey, AuditError> {
        let pkcs8 = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => make(path)?,
            Err(error) => return Err(AuditError::io(path)(error)),
        };
        let pair = Ed25519KeyPair::from_pkcs8(&pkcs8);
        pair.map(NodeKey).map_err(|_| AuditError::Key(path.to_owned()))
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(key)
    }

    pub(crate) fn sign(&self, text: &[u8]) -> [u8; SIGNATURE_LEN] {
        let mut signature = [0; SIGNATURE_LEN];
        signature.copy_from_slice(self.0.sign(text).as_ref());
        signature
    }
}

/// Creates a key in a temporary file, which it renames. A crash therefore leaves either a complete key file or none.
fn make(path: &Path) -> Result<Vec<u8>, AuditError> {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| AuditError::Random)?;
    let beside = path.with_extension("new");
    let write = || {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(pkcs8.as_ref())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(AuditError::io(path))?;
    Ok(pkcs8.as_ref().to_vec())
}

/// The public key of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Parses a key of 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<PublicKey> {
        parse_hex(text).map(PublicKey)
    }

    pub(crate) fn has_signed(&self, text: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(text, signature).is_ok()
    }
}

/// Parses 64 hexadecimal digits.
pub(crate) fn parse_hex(text: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok()?.try_into().ok()
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

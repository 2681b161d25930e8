//! TLS and SASL of the brokers: a certificate authority, certificates that are valid for a test, and one user.

use std::io;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};

use crate::Ports;

/// User of the listener with SASL.
const USER: &str = "pando";
const PASSWORD: &str = "kafka-secret";

/// Files that clients of the listeners with TLS need, and the key of the broker. All files except the password are PEM
/// files.
#[derive(Clone, Debug)]
pub struct Security {
    /// Certificate of the authority.
    pub ca: PathBuf,
    /// Certificate of a client.
    pub certificate: PathBuf,
    /// Key of the client.
    pub key: PathBuf,
    /// Password of the user.
    pub password_file: PathBuf,
    /// Key and certificate of the broker, in one file.
    broker: PathBuf,
}

impl Security {
    /// Returns the user of the listener with SASL.
    pub fn user(&self) -> &'static str {
        USER
    }

    /// Returns the password of the user.
    pub fn password(&self) -> &'static str {
        PASSWORD
    }

    pub(crate) fn create(folder: &Path) -> io::Result<Security> {
        std::fs::create_dir_all(folder)?;
        let file = |name: &str| folder.join(name);
        let security = Security {
            ca: file("ca.pem"),
            certificate: file("client.pem"),
            key: file("client-key.pem"),
            password_file: file("password"),
            broker: file("broker.pem"),
        };
        let authority_key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = named("authority", Vec::new()).map_err(io::Error::other)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&authority_key).map_err(io::Error::other)?;
        std::fs::write(&security.ca, ca.pem())?;
        let issuer = Issuer::new(params, authority_key);
        let issue = |name: &str| {
            let key = KeyPair::generate()?;
            let params = named(name, vec![name.to_owned()])?;
            Ok::<_, rcgen::Error>((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
        };
        let (certificate, key) = issue("127.0.0.1").map_err(io::Error::other)?;
        std::fs::write(&security.broker, format!("{key}{certificate}"))?;
        let (certificate, key) = issue("client").map_err(io::Error::other)?;
        std::fs::write(&security.certificate, certificate)?;
        std::fs::write(&security.key, key)?;
        std::fs::write(&security.password_file, format!("{PASSWORD}\n"))?;
        Ok(security)
    }

    /// Returns the arguments that add the user to the initial data of the brokers.
    pub(crate) fn format_arguments(&self) -> [String; 2] {
        ["--add-scram".to_owned(), format!("SCRAM-SHA-512=[name={USER},password={PASSWORD}]")]
    }

    /// Returns the text to append to `listeners`, to `advertised.listeners` and to the map of protocols, and then
    /// further properties.
    pub(crate) fn listeners(&self, ports: &Ports) -> (String, String, String, String) {
        let listeners = format!(",SSL://127.0.0.1:{},SASL_SSL://127.0.0.1:{}", ports.tls, ports.sasl);
        let module = "org.apache.kafka.common.security";
        let more = format!(
            "ssl.keystore.type=PEM\n\
             ssl.keystore.location={broker}\n\
             ssl.truststore.type=PEM\n\
             ssl.truststore.location={ca}\n\
             listener.name.ssl.ssl.client.auth=required\n\
             listener.name.sasl_ssl.ssl.client.auth=none\n\
             sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n\
             listener.name.sasl_ssl.plain.sasl.jaas.config={module}.plain.PlainLoginModule required \
             user_{USER}=\"{PASSWORD}\";\n\
             listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;\n",
            broker = self.broker.display(),
            ca = self.ca.display(),
        );
        (listeners.clone(), listeners, ",SSL:SSL,SASL_SSL:SASL_SSL".to_owned(), more)
    }
}

/// Returns parameters of a certificate with this common name. The name must differ from the name of the issuer, or the
/// certificate counts as self-signed.
fn named(name: &str, names: Vec<String>) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

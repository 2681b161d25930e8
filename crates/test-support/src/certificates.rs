//! An authority that issues certificates for servers and clients.

use client::Tls;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
};

/// A certificate authority for a test.
pub struct Authority {
    /// The certificate of the authority.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates an authority with a new key.
    pub fn generate() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Test authority");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// Issues a certificate for `hosts` or the DN `name`. Returns the certificate and its key.
    pub fn issue(&self, hosts: &[&str], name: &[(DnType, &str)]) -> (String, String) {
        self.signed(params(hosts, name))
    }

    /// Issues a certificate that has expired. Returns the certificate and its key.
    pub fn issue_expired(&self, name: &[(DnType, &str)]) -> (String, String) {
        let mut params = params(&[], name);
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        self.signed(params)
    }

    fn signed(&self, params: CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Returns the TLS settings of a client that trusts only this authority.
    pub fn trusted_by_client(&self) -> Tls {
        Tls::authorities(self.pem.as_bytes()).unwrap()
    }
}

fn params(hosts: &[&str], name: &[(DnType, &str)]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in name {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params
}

/// Returns the DN of anna's entry with the root RDN first, as in certificates.
pub fn anna() -> Vec<(DnType, &'static str)> {
    let uid = || DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 1]);
    let dc = || DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 25]);
    // rcgen permits only one value of each type, so the tree is below dc=example.
    vec![(dc(), "example"), (DnType::OrganizationalUnitName, "people"), (uid(), "anna")]
}

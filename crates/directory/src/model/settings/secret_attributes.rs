//! Attribute types that the setting `secret_attributes` names by default.

/// Types in which other software stores hashes, keys and clear passwords, sorted by name. Most of these types are not
/// in a shipped schema. A name takes effect as soon as the schema defines it.
///
/// The sources are the published schemas of Samba 2 and 3, MIT Kerberos, Heimdal, 389 Directory Server, FreeIPA, Active
/// Directory with LAPS and BitLocker, eDirectory, OpenDJ and UnboundID, FreeRADIUS, Asterisk, ISC DHCP, slapo-otp,
/// H.350 (RFC 3944) and RFC 2307.
pub(super) const SECRET_ATTRIBUTES: [&str; 75] = [
    "AstAccountSecret",
    "AstMD5secret",
    "AstVoicemailPassword",
    "currentValue",
    "dBCSPwd",
    "dhcpKeySecret",
    "ds-auth-delivered-otp",
    "ds-auth-totp-shared-secret",
    "ds-cfg-symmetric-key",
    "ds-pwp-password-history",
    "ds-pwp-retired-password",
    "h235IdentityPassword",
    "initialAuthIncoming",
    "initialAuthOutgoing",
    "ipaNTHash",
    "ipaNTTrustAuthIncoming",
    "ipaNTTrustAuthOutgoing",
    "ipaPrivateKey",
    "ipaSecretKey",
    "ipatokenOTPkey",
    "ipatokenRadiusSecret",
    "krb5Key",
    "krbMKey",
    "krbPrincipalKey",
    "krbPwdHistory",
    "lmPassword",
    "lmPwdHistory",
    "ms-Mcs-AdmPwd",
    "ms-Mcs-AdmPwdHistory",
    "msDS-ExecuteScriptPassword",
    "msDS-ManagedPassword",
    "msFVE-KeyPackage",
    "msFVE-RecoveryPassword",
    "msLAPS-EncryptedDSRMPassword",
    "msLAPS-EncryptedDSRMPasswordHistory",
    "msLAPS-EncryptedPassword",
    "msLAPS-EncryptedPasswordHistory",
    "msLAPS-Password",
    "msSFU30Password",
    "msTPM-OwnerInformation",
    "nisSecretKey",
    "nsDS5ReplicaBootstrapCredentials",
    "nsDS5ReplicaCredentials",
    "nsMultiplexorCredentials",
    "nspmDistributionPassword",
    "nspmPassword",
    "nspmPasswordHistory",
    "nspmPasswordKey",
    "nsslapd-rootpw",
    "nsSymmetricKey",
    "ntPassword",
    "ntPwdHistory",
    "oathEncKey",
    "oathSecret",
    "olcRootPW",
    "passwordHistory",
    "pekList",
    "priorValue",
    "privateKey",
    "radiusClientSecret",
    "radiusTunnelPassword",
    "sambaClearTextPassword",
    "sambaLMPassword",
    "sambaNTPassword",
    "sambaPasswordHistory",
    "sambaPreviousClearTextPassword",
    "sasLoginSecret",
    "sasLoginSecretKey",
    "SIPIdentityPassword",
    "supplementalCredentials",
    "trustAuthIncoming",
    "trustAuthOutgoing",
    "unicodePwd",
    "unixUserPassword",
    "userPKCS12",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The list must be sorted like the list in checked settings. Otherwise a directory with the defaults would differ
    /// from a file with the defaults.
    #[test]
    fn default_names_are_sorted_and_unique() {
        assert!(SECRET_ATTRIBUTES.is_sorted_by(|a, b| a.to_ascii_lowercase() < b.to_ascii_lowercase()));
    }
}

//! Operational attributes of other servers. An import converts each of these attributes or leaves it out.
//!
//! The tables apply to attributes that the schema does not define. To import such an attribute unchanged, an
//! administrator adds its definition to the schema. An attribute that is neither defined nor listed may contain user
//! data, so its entry is rejected.

use schema::AttributeType;
use uuid::Uuid;

/// Handling of an attribute of another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::maintenance) enum Vendor {
    /// An identifier that becomes the entryUUID of the entry.
    Identifier,
    /// A value that shows whether the account is disabled.
    Disabled(Disabled),
    /// A time, stored in the attribute with this name.
    Time(&'static str),
    /// A time in units of 100 nanoseconds since 1601 (Active Directory), stored in the attribute with this name.
    FileTime(&'static str),
    /// An attribute without a meaning for Pando.
    LeftOut,
}

/// Form of a value that shows whether an account is disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::maintenance) enum Disabled {
    /// `TRUE` means disabled.
    Boolean,
    /// A set bit 2 means disabled (userAccountControl).
    AccountControl,
}

/// Bit of userAccountControl that marks a disabled account.
const ACCOUNT_DISABLED: i64 = 2;

/// Seconds from 1601 to 1970.
const FILE_TIME_OFFSET: i64 = 11_644_473_600;

/// Attributes that are converted.
const CONVERTED: &[(&str, Vendor)] = &[
    ("nsUniqueId", Vendor::Identifier),
    ("ds-entry-unique-id", Vendor::Identifier),
    ("ibm-entryUuid", Vendor::Identifier),
    ("objectGUID", Vendor::Identifier),
    ("GUID", Vendor::Identifier),
    ("orclGUID", Vendor::Identifier),
    ("nsAccountLock", Vendor::Disabled(Disabled::Boolean)),
    ("ds-pwp-account-disabled", Vendor::Disabled(Disabled::Boolean)),
    ("loginDisabled", Vendor::Disabled(Disabled::Boolean)),
    ("ibm-pwdAccountLocked", Vendor::Disabled(Disabled::Boolean)),
    ("userAccountControl", Vendor::Disabled(Disabled::AccountControl)),
    ("whenCreated", Vendor::Time("createTimestamp")),
    ("whenChanged", Vendor::Time("modifyTimestamp")),
    ("lastLoginTime", Vendor::Time("pwdLastSuccess")),
    ("ds-pwp-last-login-time", Vendor::Time("pwdLastSuccess")),
    ("loginTime", Vendor::Time("pwdLastSuccess")),
    ("authTimestamp", Vendor::Time("pwdLastSuccess")),
    ("ds-pwp-account-expiration-time", Vendor::Time("pwdEndTime")),
    ("loginExpirationTime", Vendor::Time("pwdEndTime")),
    ("pwdLastSet", Vendor::FileTime("pwdChangedTime")),
    ("lastLogonTimestamp", Vendor::FileTime("pwdLastSuccess")),
    ("accountExpires", Vendor::FileTime("pwdEndTime")),
];

/// Attributes that are left out, grouped by server.
const LEFT_OUT: &[&str] = &[
    // OpenLDAP.
    "OpenLDAPaci saslAuthzTo saslAuthzFrom authzTo authzFrom entryExpireTimestamp pwdUniqueAttempts queryId \
     olcLastBind deltaCRL dynlistMemberOf pwdLastChangedBy cachedResultsBy auditContext",
    // 389 DS, Sun, Oracle, FreeIPA.
    "aci nsRole nsRoleDN nscpEntryDN nscpEntryWSI nsParentUniqueId entryid parentid dsEntryDN \
     nsds5ReplConflict nstombstoneCSN tombstoneNumSubordinates tombstoneSubordinates nsBackendSuffix \
     passwordExpirationTime passwordExpWarned passwordRetryCount retryCountResetTime accountUnlockTime \
     passwordAllowChangeTime passwordGraceUserTime passwordObject pwdUpdateTime pwdTPRReset pwdTPRUseCount \
     pwdTPRExpireAt pwdTPRValidFrom nsIdleTimeout nsSizeLimit nsTimeLimit nsLookThroughLimit nsPagedSizeLimit \
     nsPagedLookThroughLimit nsPagedIDListScanLimit nsIDListScanLimit copiedFrom copyingFrom mepManagedBy \
     internalCreatorsName internalModifiersName internalModifyTimestamp cosSpecifier lastLoginHistory \
     ds6ruv nsds50ruv nsPwdLastChange aciTargetEntry numLocalSubordinates nsPasswordPolicySubentry",
    // OpenDJ, ForgeRock, Ping.
    "ds-sync-hist ds-sync-state ds-sync-generation-id ds-sync-conflict ds-sync-fractional-exclude \
     ds-sync-fractional-include ds-pwp-password-policy-dn ds-pwp-reset-time ds-pwp-warned-time \
     ds-pwp-password-changed-by-required-time ds-pwp-auth-failure ds-pwp-last-login-ip-address \
     ds-pwp-password-expiration-time ds-pwp-stable-entry-dn ds-pwp-modifiable-state-json ds-pwp-state-json \
     ds-privilege-name ds-rlim-size-limit ds-rlim-time-limit ds-rlim-lookthrough-limit ds-rlim-idle-time-limit \
     ds-rlim-cursor-entry-limit ds-certificate-fingerprint ds-create-time ds-update-time ds-last-access-time \
     ds-entry-checksum ds-undelete-from-dn ds-soft-delete-from-dn ds-soft-delete-timestamp \
     ds-backend-entry-count etag entryDigest",
    // Active Directory.
    "uSNCreated uSNChanged uSNLastObjRem uSNDSALastObjRemoved instanceType objectCategory dSCorePropagationData \
     lastLogon lastLogoff logonCount badPwdCount badPasswordTime lockoutTime primaryGroupID sAMAccountType \
     isCriticalSystemObject adminCount nTSecurityDescriptor showInAdvancedViewOnly systemFlags objectVersion \
     msDS-SupportedEncryptionTypes replPropertyMetaData replUpToDateVector repsFrom repsTo subRefs \
     masteredBy msDs-masteredBy msDS-IsDomainFor dBCSPwd lmPwdHistory ntPwdHistory supplementalCredentials \
     msDS-NcType msDS-KeyVersionNumber msDS-PSOApplied allowedAttributes allowedChildClasses canonicalName \
     createTimeStampAD modifyTimeStampAD structuralObjectClassAD sDRightsEffective tokenGroups \
     msDS-User-Account-Control-Computed msDS-RevealedUsers msDS-AuthenticatedToAccountlist userParameters \
     codePage countryCode unicodePwd directReports managedObjects serverReferenceBL siteObjectBL netbootSCPBL \
     frsComputerReferenceBL fRSMemberReferenceBL msDFSR-ComputerReferenceBL msDFSR-MemberReferenceBL \
     nonSecurityMemberBL bridgeheadServerListBL queryPolicyBL ownerBL msDS-ObjectReferenceBL msDS-KrbTgtLinkBl \
     msDS-HostServiceAccountBL msDS-IsPrimaryComputerFor msDS-RevealedDSAs msDS-TasksForAzRoleBL \
     msDS-MembersForAzRoleBL msDS-EnabledFeatureBL msSFU30PosixMemberOf isPrivilegeHolder lastKnownParent",
    // eDirectory.
    "ACL revision entryFlags localEntryID backLink securityEquals equivalentToMe groupMembership reference usedBy \
     inheritedACL securityFlags publicKey privateKey passwordsUsed passwordExpirationInterval passwordRequired \
     passwordAllowChange passwordUniqueRequired passwordMinimumLength loginGraceLimit loginGraceRemaining \
     loginIntruderAttempts loginIntruderResetTime loginIntruderAddress loginMaximumSimultaneous lockedByIntruder \
     lastLoginAddress networkAddress networkAddressRestriction loginAllowedTimeMap subordinateCount \
     nspmPassword nspmPasswordKey nspmDistributionPassword nspmPasswordHistory nspmPasswordPolicyDN \
     nspmDoNotExpirePassword sASLoginSecret sASLoginSecretKey sASLoginConfiguration sASLoginConfigurationKey \
     sASLoginFailureDelay sASEncryptionType federationBoundary federationControl replica synchronizedUpTo \
     partitionControl partitionCreationTime partitionStatus obituary convergence lastReferencedTime \
     rbsAssignedRoles2 DirXML-Associations DirXML-PasswordSyncStatus purgeVector lowConvergenceSyncInterval \
     transitiveVector syncPanePoint authoritative unknownBaseClass unknownAuxiliaryClass auxClassCompatibility",
    // IBM.
    "aclEntry aclPropagate aclSource entryOwner ownerPropagate ownerSource ibm-filterAclEntry \
     ibm-filterAclInherit ibm-effectiveAcl ibm-entryChecksum ibm-entryChecksumOp ibm-capabilitiesSubentry \
     ibm-allGroups ibm-allMembers ibm-hasReferenceAttribute ibm-pwdPolicyStartTime ibm-pwdIndividualPolicyDN \
     ibm-pwdGroupPolicyDN ibm-slapdPwEncryption ibm-replicationLastActivationTime ibm-searchSizeLimit \
     ibm-searchTimeLimit ibm-auditAttributesAndValues",
    // Oracle.
    "orclACI orclEntryLevelACI orclNormDN orclEntryDN orclPassword orclUnsyncRevPwd orclRevPwd orclLastAppliedChange \
     orclPwdAccountUnlock orclPwdIPFailureTime orclLastLoginTime orclUpdateTime orclConflict",
];

/// OIDs of the arcs in which other servers define attributes: OpenLDAP, Netscape and 389 DS, Sun, OpenDJ and ForgeRock,
/// Microsoft, Novell, IBM, Oracle.
const VENDOR_OIDS: [&str; 9] = [
    "1.3.6.1.4.1.4203.",
    "2.16.840.1.113730.",
    "1.3.6.1.4.1.42.2.27.",
    "1.3.6.1.4.1.26027.",
    "1.3.6.1.4.1.36733.",
    "1.2.840.113556.",
    "2.16.840.1.113719.",
    "1.3.18.0.2.",
    "2.16.840.1.113894.",
];

/// Attributes that contain passwords or keys for other protocols. No bind uses these attributes.
const OTHER_SECRETS: [&str; 7] = [
    "sambaNTPassword",
    "sambaLMPassword",
    "lmPassword",
    "ntPassword",
    "ipaNTHash",
    "krbPrincipalKey",
    "krb5Key",
];

/// Returns the name of an attribute type whose values are secrets for other protocols.
pub(super) fn other_secret(attribute_type: &AttributeType) -> Option<&'static str> {
    let is_named = |secret: &&str| attribute_type.names.iter().any(|name| name.eq_ignore_ascii_case(secret));
    OTHER_SECRETS.into_iter().find(is_named)
}

/// Name of an attribute of other servers. The schema has an attribute of the same name whose values have another form.
pub(super) const OTHER_FORM: &str = "passwordHistory";

/// Attributes in which Active Directory repeats the RDN or the DN of an entry. The classes of other servers do not
/// allow these attributes.
const REPEATED: [&str; 2] = ["distinguishedName", "name"];

/// Returns true if Active Directory repeats the RDN or the DN of an entry in this attribute.
pub(super) fn repeats_name(name: &str) -> bool {
    REPEATED.iter().any(|repeated| repeated.eq_ignore_ascii_case(name))
}

/// Returns the names of the attributes that are left out, in a fixed order.
pub(super) fn left_out_names() -> impl Iterator<Item = &'static str> {
    LEFT_OUT.iter().flat_map(|names| names.split_ascii_whitespace()).chain([OTHER_FORM]).chain(REPEATED)
}

/// Returns true if the type with this OID is defined by the vendor of another server. 389 DS uses words with the suffix
/// `-oid` instead of OIDs.
pub(super) fn is_of_vendor(oid: &str) -> bool {
    oid.ends_with("-oid") || VENDOR_OIDS.iter().any(|arc| oid.starts_with(arc))
}

/// Returns the handling of an attribute that the schema does not define.
pub(in crate::maintenance) fn vendor(name: &str) -> Option<Vendor> {
    let converted = CONVERTED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    converted.map(|(_, vendor)| *vendor).or_else(|| left_out_name(name).map(|_| Vendor::LeftOut))
}

/// Returns the name of a left-out attribute as the table spells it. Returns `None` if the attribute is not in the
/// table.
pub(in crate::maintenance) fn left_out_name(name: &str) -> Option<&'static str> {
    left_out_names().find(|known| known.eq_ignore_ascii_case(name))
}

/// Returns true if a value of this form marks a disabled account.
pub(in crate::maintenance) fn is_disabled(form: Disabled, value: &[u8]) -> bool {
    let value = value.trim_ascii();
    match form {
        Disabled::Boolean => value.eq_ignore_ascii_case(b"true"),
        Disabled::AccountControl => number(value).is_some_and(|number| number & ACCOUNT_DISABLED != 0),
    }
}

/// Converts an identifier to a UUID. Accepts text in the usual forms, text in the form of nsUniqueId (four groups of
/// eight digits), and the sixteen octets of a GUID, whose first three numbers are little-endian.
pub(in crate::maintenance) fn identifier(value: &[u8]) -> Option<Uuid> {
    if let Ok(octets) = <[u8; 16]>::try_from(value) {
        return Some(Uuid::from_bytes_le(octets));
    }
    let text = value.trim_ascii();
    if let Ok(uuid) = Uuid::try_parse_ascii(text) {
        return Some(uuid);
    }
    let groups: Vec<&[u8]> = text.split(|octet| *octet == b'-').collect();
    let is_group = |group: &&[u8]| group.len() == 8 && group.iter().all(u8::is_ascii_hexdigit);
    let digits = groups.concat();
    (groups.len() == 4 && groups.iter().all(is_group)).then(|| Uuid::try_parse_ascii(&digits).ok()).flatten()
}

/// Converts a file time to seconds since 1970. Returns `None` for 0 and for the largest number, because both mean
/// "never".
pub(super) fn file_time(value: &[u8]) -> Option<i64> {
    let number = number(value).filter(|number| *number > 0 && *number != i64::MAX)?;
    Some(number / 10_000_000 - FILE_TIME_OFFSET).filter(|seconds| *seconds >= 0)
}

fn number(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value.trim_ascii()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn vendor_attribute_names_are_distinct() {
        let mut seen = HashSet::new();
        for name in CONVERTED.iter().map(|(name, _)| *name).chain(left_out_names()) {
            assert!(seen.insert(name.to_ascii_lowercase()), "{name} occurs twice");
        }
        for name in ["ACI", "auditContext"] {
            assert_eq!(vendor(name), Some(Vendor::LeftOut));
        }
        assert_eq!(vendor("shoeSize"), None);
    }

    #[test]
    fn converts_identifiers_to_uuids() {
        let expected = Uuid::try_parse("00000001-1111-2222-3333-444455556666").unwrap();
        for text in [
            "00000001-11112222-33334444-55556666",
            "00000001-1111-2222-3333-444455556666",
            "{00000001-1111-2222-3333-444455556666}",
            "00000001111122223333444455556666",
        ] {
            assert_eq!(identifier(text.as_bytes()), Some(expected), "{text}");
        }
        let mut octets = *expected.as_bytes();
        octets[..8].copy_from_slice(&[1, 0, 0, 0, 0x11, 0x11, 0x22, 0x22]);
        assert_eq!(identifier(&octets), Some(expected));
        for wrong in ["", "00000001-11112222-33334444-5555666x", "anna"] {
            assert_eq!(identifier(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn reads_active_directory_numbers() {
        assert_eq!(file_time(b"133485408000000000"), Some(1_704_067_200));
        for never in ["0", "9223372036854775807", "-1", "x"] {
            assert_eq!(file_time(never.as_bytes()), None);
        }
        assert!(is_disabled(Disabled::AccountControl, b"514"));
        assert!(!is_disabled(Disabled::AccountControl, b"512") && !is_disabled(Disabled::Boolean, b"512"));
    }
}

//! Intended differences between the shipped schema and the texts that specify it, with their reasons.

/// Differences, each in the words that the test prints and with its reason.
pub(super) const DIFFERENCES: &[(&str, &str)] = &[
    (
        "rfc4523 algorithmIdentifier names: \"algorithmIdentifier\" is \"\"",
        "the matching rule is algorithmIdentifierMatch in X.509 and in the heading of the same section",
    ),
    (
        "draft-behera-ldap-password-policy-xx pwdAccountLockedTime flags: \"SINGLE-VALUE \
         NO-USER-MODIFICATION\" is \"SINGLE-VALUE\"",
        "an administrator sets it, as the same draft says in its section 9",
    ),
    (
        "draft-behera-ldap-password-policy-xx pwdEndTime flags: \"SINGLE-VALUE \
         NO-USER-MODIFICATION\" is \"SINGLE-VALUE\"",
        "an administrator sets it, as the same draft says in its section 9",
    ),
    (
        "draft-behera-ldap-password-policy-xx pwdPolicy may: \"\" is \"pwdMaxRecordedFailure\"",
        "the draft defines the attribute and forgets it in the class",
    ),
    (
        "draft-behera-ldap-password-policy-xx pwdPolicySubentry flags: \"SINGLE-VALUE \
         NO-USER-MODIFICATION\" is \"SINGLE-VALUE\"",
        "an administrator sets it, as the same draft says in its section 9",
    ),
    (
        "draft-behera-ldap-password-policy-xx pwdStartTime flags: \"SINGLE-VALUE \
         NO-USER-MODIFICATION\" is \"SINGLE-VALUE\"",
        "an administrator sets it, as the same draft says in its section 9",
    ),
    (
        "draft-howard-rfc2307bis-xx automount may: \"\" is \"automountKey cn\"",
        "the older autofs schema names a map by ou and a key by cn, and entries of both are accepted",
    ),
    (
        "draft-howard-rfc2307bis-xx automount must: \"automountKey\" is \"\"",
        "the older autofs schema names a map by ou and a key by cn, and entries of both are accepted",
    ),
    (
        "draft-howard-rfc2307bis-xx automountMap may: \"\" is \"automountMapName ou\"",
        "the older autofs schema names a map by ou and a key by cn, and entries of both are accepted",
    ),
    (
        "draft-howard-rfc2307bis-xx automountMap must: \"automountMapName\" is \"\"",
        "the older autofs schema names a map by ou and a key by cn, and entries of both are accepted",
    ),
    (
        "draft-howard-rfc2307bis-xx ipServiceProtocol substr: \"\" is \"caseIgnoreSubstringsMatch\"",
        "RFC 2307 has it, and clients search by parts of names",
    ),
    (
        "draft-howard-rfc2307bis-xx memberNisNetgroup substr: \"\" is \"caseExactSubstringsMatch\"",
        "RFC 2307 has it, and clients search by parts of names",
    ),
    (
        "draft-howard-rfc2307bis-xx memberUid substr: \"\" is \"caseExactSubstringsMatch\"",
        "RFC 2307 has it, and clients search by parts of names",
    ),
    (
        "draft-howard-rfc2307bis-xx nisMapEntry substr: \"\" is \"caseExactSubstringsMatch\"",
        "RFC 2307 has it, and clients search by parts of names",
    ),
    (
        "draft-howard-rfc2307bis-xx nisMapName substr: \"\" is \"caseIgnoreSubstringsMatch\"",
        "RFC 2307 has it, and clients search by parts of names",
    ),
    (
        "draft-howard-rfc2307bis-xx posixGroup may: \"\" is \"cn\"",
        "entries that are nothing else are named by it",
    ),
    (
        "rfc2307 bootParameter equality: \"\" is \"caseExactIA5Match\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 bootParameter syntax: \"1.3.6.1.1.1.0.1\" is \"1.3.6.1.4.1.1466.115.121.1.26\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 gecos equality: \"caseIgnoreIA5Match\" is \"caseIgnoreMatch\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 gecos substr: \"caseIgnoreIA5SubstringsMatch\" is \"caseIgnoreSubstringsMatch\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 gecos syntax: \"1.3.6.1.4.1.1466.115.121.1.26\" is \"1.3.6.1.4.1.1466.115.121.1.15\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 gidNumber ordering: \"\" is \"integerOrderingMatch\"",
        "draft-howard-rfc2307bis section 3 has it",
    ),
    (
        "rfc2307 ipHost may: \"\" is \"authPassword userPassword\"",
        "draft-howard-rfc2307bis section 4 has the class so",
    ),
    (
        "rfc2307 ipHostNumber syntax: \"1.3.6.1.4.1.1466.115.121.1.26{128}\" is \"1.3.6.1.4.1.1466.115.121.1.26\"",
        "a bound says nothing here, and the draft has none",
    ),
    (
        "rfc2307 ipNetmaskNumber syntax: \"1.3.6.1.4.1.1466.115.121.1.26{128}\" is \"1.3.6.1.4.1.1466.115.121.1.26\"",
        "a bound says nothing here, and the draft has none",
    ),
    ("rfc2307 ipNetwork may: \"\" is \"cn\"", "draft-howard-rfc2307bis section 4 has the class so"),
    ("rfc2307 ipNetwork must: \"cn\" is \"\"", "draft-howard-rfc2307bis section 4 has the class so"),
    (
        "rfc2307 ipNetworkNumber syntax: \"1.3.6.1.4.1.1466.115.121.1.26{128}\" is \"1.3.6.1.4.1.1466.115.121.1.26\"",
        "a bound says nothing here, and the draft has none",
    ),
    (
        "rfc2307 ipProtocol must: \"description\" is \"\"",
        "draft-howard-rfc2307bis section 4 has the class so",
    ),
    (
        "rfc2307 ipProtocolNumber ordering: \"\" is \"integerOrderingMatch\"",
        "draft-howard-rfc2307bis section 3 has it",
    ),
    (
        "rfc2307 ipServicePort ordering: \"\" is \"integerOrderingMatch\"",
        "draft-howard-rfc2307bis section 3 has it",
    ),
    ("rfc2307 ipServiceProtocol sup: \"name\" is \"\"", "draft-howard-rfc2307bis: not a subtype of name"),
    (
        "rfc2307 macAddress syntax: \"1.3.6.1.4.1.1466.115.121.1.26{128}\" is \"1.3.6.1.4.1.1466.115.121.1.26\"",
        "a bound says nothing here, and the draft has none",
    ),
    (
        "rfc2307 memberNisNetgroup equality: \"caseExactIA5Match\" is \"caseExactMatch\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 memberNisNetgroup substr: \"caseExactIA5SubstringsMatch\" is \"caseExactSubstringsMatch\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 memberNisNetgroup syntax: \"1.3.6.1.4.1.1466.115.121.1.26\" is \"1.3.6.1.4.1.1466.115.121.1.15\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 memberUid equality: \"caseExactIA5Match\" is \"caseExactMatch\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 memberUid substr: \"caseExactIA5SubstringsMatch\" is \"caseExactSubstringsMatch\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 memberUid syntax: \"1.3.6.1.4.1.1466.115.121.1.26\" is \"1.3.6.1.4.1.1466.115.121.1.15\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 nisMapEntry equality: \"caseExactIA5Match\" is \"caseExactMatch\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 nisMapEntry substr: \"caseExactIA5SubstringsMatch\" is \"caseExactSubstringsMatch\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 nisMapEntry syntax: \"1.3.6.1.4.1.1466.115.121.1.26{1024}\" is \
         \"1.3.6.1.4.1.1466.115.121.1.15{1024}\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    ("rfc2307 nisMapName sup: \"name\" is \"\"", "draft-howard-rfc2307bis: not a subtype of name"),
    (
        "rfc2307 nisMapName syntax: \"1.3.6.1.4.1.1466.115.121.1.15\" is \"1.3.6.1.4.1.1466.115.121.1.15{64}\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 nisNetgroupTriple equality: \"\" is \"caseIgnoreMatch\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 nisNetgroupTriple substr: \"\" is \"caseIgnoreSubstringsMatch\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    (
        "rfc2307 nisNetgroupTriple syntax: \"1.3.6.1.1.1.0.0\" is \"1.3.6.1.4.1.1466.115.121.1.15\"",
        "draft-howard-rfc2307bis: the wider syntax, with its rules",
    ),
    ("rfc2307 oncRpc must: \"description\" is \"\"", "draft-howard-rfc2307bis section 4 has the class so"),
    (
        "rfc2307 oncRpcNumber ordering: \"\" is \"integerOrderingMatch\"",
        "draft-howard-rfc2307bis section 3 has it",
    ),
    (
        "rfc2307 posixAccount may: \"\" is \"authPassword\"",
        "draft-howard-rfc2307bis section 4 has the class so",
    ),
    (
        "rfc2307 posixGroup kind: \"STRUCTURAL\" is \"AUXILIARY\"",
        "draft-howard-rfc2307bis section 4 has the class so",
    ),
    (
        "rfc2307 posixGroup may: \"\" is \"authPassword cn\"",
        "draft-howard-rfc2307bis section 4 has the class so",
    ),
    ("rfc2307 posixGroup must: \"cn\" is \"\"", "draft-howard-rfc2307bis section 4 has the class so"),
    (
        "rfc2307 shadowAccount may: \"\" is \"authPassword\"",
        "draft-howard-rfc2307bis section 4 has the class so",
    ),
    (
        "rfc2307 shadowExpire ordering: \"\" is \"integerOrderingMatch\"",
        "draft-howard-rfc2307bis section 3 has it",
    ),
    (
        "rfc2307 shadowFlag ordering: \"\" is \"integerOrderingMatch\"",
        "draft-howard-rfc2307bis section 3 has it",
    ),
    (
        "rfc2307 shadowInactive ordering: \"\" is \"integerOrderingMatch\"",
        "draft-howard-rfc2307bis section 3 has it",
    ),
    (
        "rfc2307 shadowLastChange ordering: \"\" is \"integerOrderingMatch\"",
        "draft-howard-rfc2307bis section 3 has it",
    ),
    (
        "rfc2307 shadowMax ordering: \"\" is \"integerOrderingMatch\"",
        "draft-howard-rfc2307bis section 3 has it",
    ),
    (
        "rfc2307 shadowMin ordering: \"\" is \"integerOrderingMatch\"",
        "draft-howard-rfc2307bis section 3 has it",
    ),
    (
        "rfc2307 shadowWarning ordering: \"\" is \"integerOrderingMatch\"",
        "draft-howard-rfc2307bis section 3 has it",
    ),
    (
        "rfc2307 uidNumber ordering: \"\" is \"integerOrderingMatch\"",
        "draft-howard-rfc2307bis section 3 has it",
    ),
    ("rfc2589 dynamicSubtrees equality: \"\" is \"distinguishedNameMatch\"", "so that it can be compared"),
    ("rfc2589 entryTtl equality: \"\" is \"integerMatch\"", "so that it can be compared"),
    ("rfc2589 entryTtl ordering: \"\" is \"integerOrderingMatch\"", "so that it can be compared"),
    (
        "rfc3112 authPasswordMatch syntax: \"1.3.6.1.4.1.1466.115.121.1.40{128}\" is \"1.3.6.1.4.1.1466.115.121.1.40\"",
        "a bound says nothing here",
    ),
    (
        "rfc3112 authPasswordObject sup: \"\" is \"top\"",
        "every class but top has a superclass (RFC 4512 section 2.4.1)",
    ),
    (
        "rfc3296 referral sup: \"\" is \"top\"",
        "every class but top has a superclass (RFC 4512 section 2.4.1)",
    ),
    (
        "rfc3671 collectiveAttributeSubentry sup: \"\" is \"top\"",
        "every class but top has a superclass (RFC 4512 section 2.4.1)",
    ),
    (
        "rfc4512 subschema sup: \"\" is \"top\"",
        "every class but top has a superclass (RFC 4512 section 2.4.1)",
    ),
];

/// Names of definitions that the texts contain, but Pando does not ship, with the reason.
pub(super) const NOT_SHIPPED: &[(&str, &str)] = &[
    ("labeledURL", "RFC 2079 has it for values of the time before, and says that it is not to be used"),
    ("storedPrefixMatch", "no attribute type of RFC 3698 is shipped that it would be for"),
];

/// Names that are shipped but are in none of the texts, with their origin. Names below Pando's own arc need no text.
pub(super) const WITHOUT_TEXT: &[(&str, &str)] = &[
    (
        "CSNMatch CSNOrderingMatch CSNSIDMatch contextCSN entryCSN",
        "draft-chu-ldap-csn, with the OIDs of OpenLDAP",
    ),
    (
        "attributeCertificateExactMatch attributeCertificateMatch attributeCertificateAttribute \
         attributeCertificateRevocationList aACertificate attributeAuthorityRevocationList \
         attributeDescriptorCertificate protPrivPolicy pmiUser pmiAA pmiSOA attCertCRLDistributionPt \
         protectedPrivilegePolicy",
        "X.509 clause 17, in ASN.1",
    ),
    ("configContext monitorContext rootDSE dgIdentity entryExpireTimestamp", "OpenLDAP"),
    (
        "pwdAccountTmpLockoutEnd pwdCheckModule pwdCheckModuleArg pwdPolicyChecker pwdUseCheckModule",
        "the policy overlay of OpenLDAP",
    ),
    ("caseExactIA5SubstringsMatch", "RFC 2307 names it and has no definition; the OID is that of OpenLDAP"),
    (
        "octetStringSubstringsMatch presentationAddressMatch protocolInformationMatch uTCTimeMatch \
         uTCTimeOrderingMatch",
        "X.520, by way of RFC 2252 and RFC 3698",
    ),
    ("integerBitAndMatch integerBitOrMatch isDeleted lastKnownParent", "Active Directory"),
    ("dnOneLevelMatch dnSubtreeMatch dnSubordinateMatch dnSuperiorMatch", "OpenLDAP"),
    ("inchainMatch", "Active Directory, with the name of 389 DS"),
    ("hasSubordinates", "X.501 section 13.4.8"),
    ("numSubordinates isMemberOf rfc822MailMember nisMailAlias", "Sun"),
    ("entryUSN", "389 DS"),
    ("memberOf", "Active Directory, by way of OpenLDAP and 389 DS"),
    ("mailHost mailLocalAddress mailRoutingAddress inetLocalMailRecipient memberURL groupOfURLs", "Netscape"),
    ("sshPublicKey ldapPublicKey", "the patch of OpenSSH for LDAP"),
    (
        "aRecord cNAMERecord mDRecord mXRecord nSRecord sOARecord dNSDomain pilotPerson janetMailbox \
         mailPreferenceOption otherMailbox personalSignature photo textEncodedORAddress dITRedirect dSAQuality \
         singleLevelQuality subtreeMaximumQuality subtreeMinimumQuality",
        "RFC 1274",
    ),
    (
        "applicationEntity dSA dmd dmdName knowledgeInformation presentationAddress protocolInformation pseudonym \
         supportedApplicationContext",
        "RFC 2256 and X.520",
    ),
    ("emailAddress", "PKCS #9"),
    ("authzMatch OpenLDAPaciMatch privateKeyMatch rdnMatch", "OpenLDAP"),
    ("ds-mr-user-password-exact ds-mr-user-password-equality historicalCsnOrderingMatch", "OpenDJ"),
];

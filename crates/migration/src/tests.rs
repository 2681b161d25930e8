//! Tests with configurations of each product and the resulting proposals.

use super::*;

fn of_ldif(text: &str) -> Configuration {
    let mut configuration = Configuration::default();
    configuration.read_ldif("config.ldif", text.as_bytes());
    assert_eq!(configuration.unread, Vec::<String>::new());
    configuration
}

fn of_conf(text: &str) -> Configuration {
    let mut configuration = Configuration::default();
    read_slapd_conf(&mut configuration, "slapd.conf", text, &mut |name| match name {
        "more.conf" => Included::Text("idletimeout 300\n".to_owned()),
        name if name.ends_with(".schema") => Included::Schema,
        _ => Included::Unreadable("no such file".to_owned()),
    });
    configuration
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

#[track_caller]
fn has(text: &str, wanted: &[&str]) {
    for line in wanted {
        assert!(lines(text).contains(line), "{line:?} is missing in:\n{text}");
    }
}

const SLAPD_CONF: &str = "\
# global
include /etc/ldap/schema/local.schema
include more.conf
include lost.conf
sizelimit size.soft=500 size.hard=2000
disallow bind_anon
TLSCertificateFile /etc/ssl/directory.pem
database mdb
suffix \"dc=example,dc=com\"
rootdn \"cn=admin,dc=example,dc=com\"
rootpw {SSHA}secret
index uid,mail eq,sub
index objectClass eq
index unheardOf eq
limits users size=100
  time=10
limits dn.regex=\"^uid\" size=1
access to attrs=userPassword by self write by * auth
access to * by users read
checkpoint 512 30
overlay memberof
memberof-group-oc groupOfURLs
overlay unique
unique_uri \"ldap:///ou=people,dc=example,dc=com?mail,uid?sub?(objectClass=person)\"
overlay refint
refint_attributes member manager cn
overlay constraint
constraint_attribute mail count 3
constraint_attribute telephoneNumber regex ^[+][0-9]+$
constraint_attribute cn,sn regex A|B
constraint_attribute departmentNumber uri ldap:///ou=units,dc=example,dc=com?ou?one?(objectClass=top)
constraint_attribute roomNumber uri \"ldap:///?roomNumber?sub?\" restrict=ldap:///dc=example,dc=com??sub?(title=a)
constraint_attribute title uri ldap:///dc=example,dc=com?cn,sn?sub
constraint_attribute manager uri ldap:///dc=example,dc=com?member?sub
constraint_attribute description set \"[x]\"
overlay ppolicy
ppolicy_default cn=default,ou=policies,dc=example,dc=com
overlay rwm
database monitor
";

#[test]
fn a_slapd_conf_becomes_settings_and_decisions() {
    let configuration = of_conf(SLAPD_CONF);
    assert_eq!(configuration.unread, ["slapd.conf line 4: lost.conf: no such file"]);
    let proposal = propose(&configuration).unwrap();
    has(
        &proposal.settings(),
        &[
            "\"dc=example,dc=com\",",
            "\"/etc/ldap/schema/local.schema\",",
            "\"unique1: mail in 'ou=people,dc=example,dc=com' matching '(objectClass=person)'\",",
            "\"unique2: uid in 'ou=people,dc=example,dc=com' matching '(objectClass=person)'\",",
            "\"limit1: mail at most 3 values\",",
            "\"limit2: telephoneNumber like '[+][0-9]+'\",",
            "\"limit3: cn, sn like '.*(?:A|B).*'\",",
            "\"limit4: departmentNumber from 'ldap:///ou=units,dc=example,dc=com?ou?one?(objectClass=top)'\",",
            "\"limit5: roomNumber from 'ldap:///dc=example,dc=com?roomNumber?sub' matching '(title=a)'\",",
            "ou = [\"equality\", \"ordering\"]",
            "roomNumber = [\"equality\", \"ordering\"]",
            "\"member\",",
            "\"manager\",",
            "administrator = \"cn=admin,dc=example,dc=com\"",
            "password_policy = \"cn=default,ou=policies,dc=example,dc=com\"",
            "size_limit = 2000",
            "mail = [\"equality\", \"ordering\", \"substring\"]",
        ],
    );
    has(
        &proposal.node(),
        &[
            "idle_timeout_seconds = 300",
            "weakest_bind = \"password\"",
            "certificate = \"/etc/ssl/directory.pem\"",
            "for = [\"users\"]",
            "size = 100",
            "time_seconds = 10",
        ],
    );
    let page = proposal.page();
    for what in [
        "index of unheardOf",
        "olclimits: dn.regex",
        "referential integrity of cn",
        "constraint title uri",
        "constraint manager uri",
        "constraint description set",
        "overlay rwm",
        "olcmemberofgroupoc: groupOfURLs",
        "the administrator's password",
    ] {
        assert!(page.contains(what), "{what:?} is missing in:\n{page}");
    }
    assert!(!page.contains("{SSHA}") && !proposal.settings().contains("{SSHA}"), "the password is copied");
}

#[test]
fn a_slapd_d_becomes_settings_and_decisions() {
    let text = "\
dn: cn=config
objectClass: olcGlobal
olcIdleTimeout: 300

dn: cn={4}local,cn=schema,cn=config
objectClass: olcSchemaConfig
olcAttributeTypes: {0}( 1.3.6.1.4.1.32473.1.1 NAME 'badgeNumber' EQUALITY integerMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
olcAttributeTypes: {1}( 2.5.4.4 NAME 'sn' SUP name )

dn: olcDatabase={1}mdb,cn=config
olcDatabase: {1}mdb
olcSuffix: dc=example,dc=com
olcDbIndex: badgeNumber eq
olcUnknown: 1

dn: olcDatabase={2}ldap,cn=config
olcDatabase: {2}ldap
olcSuffix: dc=other
";
    let proposal = propose(&of_ldif(text)).unwrap();
    has(&proposal.settings(), &["badgeNumber = [\"equality\"]", "anonymous_read = true", "\"schema.ldif\","]);
    assert!(proposal.schema().contains("badgeNumber") && !proposal.schema().contains("'sn'"));
    assert!(!proposal.settings().contains("dc=other"), "a proxy is no suffix");
    let page = proposal.page();
    assert!(page.contains("`olcunknown`") && page.contains("a database of type ldap"), "{page}");
}

#[test]
fn rules_of_several_databases_are_not_mixed() {
    let text = "\
dn: olcDatabase={1}mdb,cn=config
olcDatabase: {1}mdb
olcSuffix: dc=a
olcAccess: {0}to * by users read

dn: olcDatabase={2}mdb,cn=config
olcDatabase: {2}mdb
olcSuffix: dc=b
olcAccess: {0}to * by * none
";
    let proposal = propose(&of_ldif(text)).unwrap();
    assert!(!proposal.settings().contains("access_rules"), "{}", proposal.settings());
    assert!(proposal.page().contains("rules of several databases: dc=a, dc=b"));
}

/// Regression test: the rules of the only database with rules were proposed for all databases.
#[test]
fn rules_of_one_database_are_not_proposed_for_a_database_without_rules() {
    let text = "\
dn: olcDatabase={1}mdb,cn=config
olcDatabase: {1}mdb
olcSuffix: dc=a
olcAccess: {0}to * by users write

dn: olcDatabase={2}mdb,cn=config
olcDatabase: {2}mdb
olcSuffix: dc=b
";
    let proposal = propose(&of_ldif(text)).unwrap();
    assert!(!proposal.settings().contains("access_rules"), "{}", proposal.settings());
    let page = proposal.page();
    assert!(page.contains("rules of: dc=a; databases without rules: dc=b"), "{page}");
}

#[test]
fn a_dse_ldif_becomes_settings_a_policy_and_decisions() {
    let text = "\
dn: cn=config
objectClass: nsslapdConfig
nsslapd-rootdn: cn=Directory Manager
nsslapd-sizelimit: 2000
nsslapd-timelimit: -1
nsslapd-port: 389
passwordLockout: on
passwordMaxFailure: 5
passwordUnlock: off
passwordLockoutDuration: 600
passwordExp: off
passwordMaxAge: 8640000

dn: cn=userRoot,cn=ldbm database,cn=plugins,cn=config
objectClass: nsBackendInstance
nsslapd-suffix: dc=example,dc=com

dn: cn=mail,cn=index,cn=userRoot,cn=ldbm database,cn=plugins,cn=config
objectClass: nsIndex
cn: mail
nsSystemIndex: false
nsIndexType: pres
nsIndexType: eq

dn: cn=employeeNumber,cn=default indexes,cn=config,cn=ldbm database,cn=plugins,cn=config
objectClass: nsIndex
cn: employeeNumber
nsSystemIndex: false
nsIndexType: eq

dn: cn=attribute uniqueness,cn=plugins,cn=config
objectClass: nsSlapdPlugin
cn: attribute uniqueness
nsslapd-pluginEnabled: on
uniqueness-attribute-name: uid
uniqueness-subtrees: ou=people,dc=example,dc=com

dn: cn=referential integrity postoperation,cn=plugins,cn=config
objectClass: nsSlapdPlugin
cn: referential integrity postoperation
nsslapd-pluginEnabled: on
referint-membership-attr: member

dn: cn=UIDs,cn=Distributed Numeric Assignment Plugin,cn=plugins,cn=config
objectClass: extensibleObject
cn: UIDs
dnaType: uidNumber
dnaNextValue: 5000
dnaMaxValue: 9000
dnaScope: dc=example,dc=com

dn: cn=Something,cn=plugins,cn=config
objectClass: nsSlapdPlugin
cn: Something
nsslapd-pluginEnabled: on

dn: dc=example,dc=com
objectClass: domain
aci: (targetattr = \"*\")(version 3.0; acl \"all\"; allow (read,search,compare) userdn = \"ldap:///all\";)
";
    let proposal = propose(&of_ldif(text)).unwrap();
    has(
        &proposal.settings(),
        &[
            "administrator = \"cn=Directory Manager\"",
            "size_limit = 2000",
            "time_limit_seconds = 0",
            "mail = [\"equality\", \"ordering\"]",
            "\"unique1: uid in 'ou=people,dc=example,dc=com'\",",
            "\"range1: uidNumber from 5000 to 9000 in 'dc=example,dc=com'\",",
            "password_policy = \"cn=global,ou=policies,dc=example,dc=com\"",
        ],
    );
    assert!(proposal.settings().contains("access_rules"), "{}", proposal.settings());
    assert!(!proposal.settings().contains("employeeNumber"), "default indexes apply only to later databases");
    has(proposal.policies(), &["pwdLockout: TRUE", "pwdMaxFailure: 5"]);
    assert!(!proposal.policies().contains("pwdLockoutDuration"), "the lock does not end by itself");
    assert!(!proposal.policies().contains("pwdMaxAge"), "passwords do not expire");
    let page = proposal.page();
    assert!(page.contains("plug-in Something") && page.contains("`nsslapd-port`"), "{page}");
}

#[test]
fn a_config_ldif_of_opendj_becomes_settings_a_policy_and_decisions() {
    let text = "\
dn: cn=config
objectClass: ds-cfg-root-config
ds-cfg-size-limit: 1000
ds-cfg-time-limit: 2 minutes

dn: ds-cfg-backend-id=userRoot,cn=Backends,cn=config
objectClass: ds-cfg-pluggable-backend
ds-cfg-enabled: true
ds-cfg-base-dn: dc=example,dc=com

dn: ds-cfg-attribute=mail,cn=Index,ds-cfg-backend-id=userRoot,cn=Backends,cn=config
objectClass: ds-cfg-backend-index
ds-cfg-attribute: mail
ds-cfg-index-type: equality
ds-cfg-index-type: substring

dn: cn=Default Password Policy,cn=Password Policies,cn=config
objectClass: ds-cfg-password-policy
cn: Default Password Policy
ds-cfg-lockout-failure-count: 3
ds-cfg-lockout-duration: 15 minutes
ds-cfg-max-password-age: 0 seconds
ds-cfg-password-expiration-warning-interval: 5 days
ds-cfg-password-validator: cn=Length-Based Password Validator,cn=Password Validators,cn=config
ds-cfg-skip-validation-for-administrators: true

dn: cn=Password Validators,cn=config
objectClass: top
objectClass: ds-cfg-branch

dn: cn=Exact Match,cn=Identity Mappers,cn=config
objectClass: top
objectClass: ds-cfg-identity-mapper
objectClass: ds-cfg-exact-match-identity-mapper
ds-cfg-enabled: true

dn: cn=JMX,cn=Connection Handlers,cn=config
objectClass: ds-cfg-jmx-connection-handler
ds-cfg-enabled: false

dn: cn=7-Bit Clean,cn=Plugins,cn=config
objectClass: ds-cfg-plugin
objectClass: ds-cfg-seven-bit-clean-plugin
ds-cfg-enabled: true
";
    let proposal = propose(&of_ldif(text)).unwrap();
    has(
        &proposal.settings(),
        &[
            "\"dc=example,dc=com\",",
            "time_limit_seconds = 120",
            "mail = [\"equality\", \"ordering\", \"substring\"]",
        ],
    );
    has(proposal.policies(), &["pwdMaxFailure: 3", "pwdLockout: TRUE", "pwdLockoutDuration: 900"]);
    assert!(!proposal.policies().contains("pwdExpireWarning"), "nothing expires");
    let page = proposal.page();
    assert!(page.contains("validators of passwords"));
    // Entries of other classes must be listed too.
    for name in [
        "`objectClass: ds-cfg-exact-match-identity-mapper`",
        "`objectClass: ds-cfg-seven-bit-clean-plugin`",
        "`ds-cfg-skip-validation-for-administrators`",
    ] {
        assert!(page.contains(name), "{name} is missing in:\n{page}");
    }
    assert!(!page.contains("jmx") && !page.contains("ds-cfg-branch") && !page.contains("ds-cfg-java-class"));
}

#[test]
fn other_files_give_no_proposal() {
    assert!(propose(&of_ldif("dn: cn=config\nobjectClass: top\n")).is_none());
    assert!(propose(&Configuration::default()).is_none());
}

/// Every secret in these configurations contains `s3cr`. The configurations are written in the forms of slapd.conf(5),
/// slapd-ldap(5), slapd-config(5), 389 DS and OpenDJ.
#[test]
fn no_proposal_contains_a_password() {
    let conf = "\
database mdb
suffix dc=a
rootdn cn=admin,dc=a
rootpw s3cr1
syncrepl rid=1 provider=ldap://b binddn=\"cn=a b\" credentials=s3cr2 searchbase=dc=a
syncrepl rid=2 credentials=\"a s3cr3 \\\" s3cr4\" searchbase=dc=c
syncrepl rid=3 \"credentials=a s3cr5\" searchbase=dc=d
  Credentials=s3cr6
syncrepl rid=5 credentials=\"s3cr14\" s3cr15 s3cr16\" searchbase=dc=e
syncrepl rid=4 credentials=\"s3cr7 without end
updateref ldap://b/dc=a????bindname=cn=a,x-bindpw=s3cr8
limits dn.regex=x password=s3cr9
overlay chain
chain-uri ldap://b
chain-idassert-bind bindmethod=simple binddn=cn=a credentials=s3cr10 mode=self
overlay constraint
constraint_attribute mail set password=s3cr11
database ldap
suffix dc=o
idassert-bind bindmethod=simple credentials=s3cr12
acl-passwd s3cr13
";
    let dse = "\
dn: cn=config
nsslapd-rootpw: s3cr1
nsslapd-rootdn: cn=Directory Manager

dn: cn=a,cn=replica,cn=x,cn=mapping tree,cn=config
objectClass: nsds5ReplicationAgreement
nsDS5ReplicaCredentials: {AES-1}s3cr2

dn: cn=b,cn=chaining database,cn=plugins,cn=config
nsFarmServerURL: ldap://b/
nsMultiplexorCredentials: s3cr3
";
    let opendj = "\
dn: cn=config
ds-cfg-size-limit: 1

dn: cn=LDAP Pass Through,cn=Password Policies,cn=config
objectClass: ds-cfg-ldap-pass-through-authentication-policy
ds-cfg-mapped-search-bind-password: s3cr1

dn: cn=Trust,cn=config
ds-cfg-trust-store-pin: s3cr2
";
    for configuration in [of_conf(conf), of_ldif(dse), of_ldif(opendj)] {
        let proposal = propose(&configuration).unwrap();
        let files =
            [proposal.settings(), proposal.node(), proposal.policies().to_owned(), proposal.page()].concat();
        assert!(!files.contains("s3cr"), "a password is shown:\n{files}");
    }
    let page = propose(&of_conf(conf)).unwrap().page();
    // The rest of the values is shown, including quotes.
    for what in [
        "provider=ldap://b binddn=\"cn=a b\" credentials=*** searchbase=dc=a`",
        "olcsyncrepl: rid=2 credentials=*** searchbase=dc=c`",
        "olcsyncrepl: rid=3 \"credentials=***\" searchbase=dc=d Credentials=***`",
        "olcsyncrepl: rid=5 credentials=*** searchbase=dc=e`",
        "olcsyncrepl: rid=4 credentials=***`",
        "olcupdateref: ldap://b/dc=a????bindname=cn=a,x-bindpw=***`",
        "constraint mail set password=***`",
    ] {
        assert!(page.contains(what), "{what:?} is missing in:\n{page}");
    }
}

#[test]
fn attributes_with_secrets_are_recognized_by_name() {
    for name in
        "olcrootpw olcdbaclpasswd olcdbpass olcpseudorootpw nsds5replicacredentials nsmultiplexorcredentials \
                 nssymmetrickey ds-cfg-bind-password ds-cfg-key-store-pin userpassword"
            .split_whitespace()
    {
        assert!(secrets::is_secret(name), "{name}");
    }
    for name in
        "olcpasswordhash passwordstoragescheme olcsyncrepl olcppolicydefault ds-cfg-key-store-pin-file"
            .split_whitespace()
    {
        assert!(!secrets::is_secret(name), "{name}");
    }
}

#[test]
fn security_strength_factors_are_compared_as_numbers() {
    let need = |lines: &str| {
        let text = format!("{lines}database mdb\nsuffix dc=a\naccess to * by users read\n");
        let proposal = propose(&of_conf(&text)).unwrap();
        let need =
            proposal.node().lines().find_map(|line| line.strip_prefix("needed_for = ").map(str::to_owned));
        (need.unwrap_or_default(), proposal.decisions())
    };
    assert_eq!(need("security ssf=0 simple_bind=0\n"), (String::new(), 0));
    assert_eq!(need("security simple_bind=128 update_ssf=0\n"), ("\"passwords\"".to_owned(), 1));
    assert_eq!(need("security ssf=1 simple_bind=64\n"), ("\"everything\"".to_owned(), 1));
    assert_eq!(need("security tls=1\nsecurity simple_bind=64\n"), ("\"everything\"".to_owned(), 2));
    // A strength that is required only for changes has no counterpart.
    assert_eq!(need("security update_ssf=112\n"), (String::new(), 1));
}

/// The test has entries in the order of slapd.d, with the attributes that slapd itself adds.
#[test]
fn overlays_of_all_databases_are_translated_even_after_a_chain() {
    let text = "\
dn: olcDatabase={-1}frontend
olcDatabase: {-1}frontend
olcAuthzPolicy: none
olcSecurity: ssf=128

dn: olcOverlay={0}chain
olcOverlay: {0}chain

dn: olcDatabase={0}ldap
olcDatabase: {0}ldap
olcDbIDAssertBind: mode=self credentials=s3cr

dn: olcOverlay={1}unique
olcOverlay: {1}unique
olcUniqueURI: ldap:///?uid?sub

dn: olcDatabase={1}mdb
olcDatabase: {1}mdb
olcSuffix: dc=a
olcSecurity: ssf=128

dn: olcOverlay={0}chain
olcOverlay: {0}chain

dn: olcDatabase={0}ldap
olcDatabase: {0}ldap

dn: olcOverlay={1}refint
olcOverlay: {1}refint
olcRefintAttribute: manager
entryUUID: 39c28fce-7eef-1041-8f3c-b76fde62540d

dn: olcOverlay={2}ppolicy
olcOverlay: {2}ppolicy
olcPPolicyUseLockout: FALSE
olcPPolicyForwardUpdates: FALSE
creatorsName: cn=config

dn: olcOverlay={3}memberof
olcOverlay: {3}memberof
olcMemberOfDangling: error
";
    let proposal = propose(&of_ldif(text)).unwrap();
    has(&proposal.settings(), &["\"unique1: uid\",", "\"manager\",", "\"dc=a\","]);
    let page = proposal.page();
    let found: Vec<&str> = page.lines().filter_map(|line| line.split('`').nth(1)).take(5).collect();
    let wanted = [
        "olcsecurity: ssf=128",
        "overlay chain",
        "overlay chain",
        "olcmemberofdangling: error",
        "there are none: anonymous clients read everything",
    ];
    assert_eq!((found, proposal.decisions()), (wanted.to_vec(), 5), "{page}");
    assert!(page.contains("`olcdbidassertbind`"), "{page}");
}

/// Regression test: the attributes in the arguments of the plug-in were ignored.
#[test]
fn arguments_of_an_older_referential_integrity_plugin_are_read() {
    let plugin = |values: &str| {
        let text = format!(
            "dn: cn=config\nnsslapd-rootdn: cn=Directory Manager\n\n\
             dn: cn=referential integrity postoperation,cn=plugins,cn=config\n\
             objectClass: nsSlapdPlugin\ncn: referential integrity postoperation\nnsslapd-pluginEnabled: on\n{values}"
        );
        propose(&of_ldif(&text)).unwrap()
    };
    // The first three arguments are the delay, a file and a number.
    let proposal = plugin(
        "nsslapd-pluginarg0: 0\nnsslapd-pluginarg1: /var/log/referint\nnsslapd-pluginarg2: 0\n\
         nsslapd-pluginarg3: member\nnsslapd-pluginarg4: uniqueMember\nnsslapd-pluginarg10: owner\n",
    );
    has(
        &proposal.settings(),
        &["integrity_attributes = [", "\"member\",", "\"uniqueMember\",", "\"owner\","],
    );
    let page = plugin("nsslapd-pluginarg0: 0\n").page();
    assert!(page.contains("referential integrity of no attribute"), "{page}");
}

#[test]
fn every_entry_of_a_dse_ldif_is_translated_or_reported() {
    let text = "\
dn: cn=config
nsslapd-rootdn: cn=Directory Manager

dn: cn=userRoot,cn=ldbm database,cn=plugins,cn=config
objectClass: nsBackendInstance
nsslapd-suffix: dc=a
nsslapd-readonly: on
nsslapd-cachesize: 1

dn: cn=encryption,cn=config
nsSSLClientAuth: required
sslVersionMin: TLS1.3

dn: cn=RSA,cn=encryption,cn=config
nsSSLPersonalitySSL: Server-Cert
";
    let proposal = propose(&of_ldif(text)).unwrap();
    has(&proposal.node(), &["client_certificates_required = true", "minimum_version = \"1.3\""]);
    let page = proposal.page();
    for what in ["nsslapd-readonly: on", "nssslpersonalityssl: Server-Cert", "`nsslapd-cachesize`"] {
        assert!(page.contains(what), "{what:?} is missing in:\n{page}");
    }
}

#[test]
fn directives_with_hyphens_and_definitions_in_a_slapd_conf_are_read() {
    let conf = "\
objectidentifier my 1.3.6.1.4.1.32473.9
attributetype ( my:1 NAME 'badgeNumber' EQUALITY integerMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )
objectclass ( my:2 NAME 'badged' SUP top AUXILIARY MAY badgeNumber )
password-hash {SSHA512}
authz-regexp uid=(.*) cn=$1
sockbuf_max_incoming_auth 100000
database mdb
suffix dc=a
index badgeNumber eq
overlay memberof
memberof-dangling drop
";
    let proposal = propose(&of_conf(conf)).unwrap();
    has(&proposal.settings(), &["badgeNumber = [\"equality\"]", "\"schema.ldif\","]);
    has(&proposal.node(), &["message_size = 100000"]);
    assert!(proposal.schema().contains("olcobjectclasses: ( my:2 NAME 'badged'"), "{}", proposal.schema());
    let page = proposal.page();
    for what in ["olcpasswordhash: {SSHA512}", "olcauthzregexp: uid=(.*)", "olcmemberofdangling: drop"] {
        assert!(page.contains(what), "{what:?} is missing in:\n{page}");
    }
    assert!(!page.contains("Without a counterpart"), "{page}");
}

//! Tests of the sources of settings and their precedence.

use std::time::Duration;

use directory::bind::BindStrength;

use super::*;
use crate::config::values::TlsNeed;

fn merged(arguments: Arguments, file: &str) -> Result<Config, ConfigError> {
    let file = NodeFile::parse(file, Path::new("/etc/pando/node.toml"))?;
    Config::merge(&Arguments { data: Some("/data".into()), ..arguments }, file)
}

#[test]
fn by_default_the_server_listens_only_on_loopback() {
    let config = merged(Arguments::default(), "").unwrap();
    assert_eq!(config.listen[0].to_string(), "ldap://127.0.0.1:1389");
    assert!(config.suffixes.is_empty() && config.initial.is_none(), "taken from the directory");
    assert!(!config.anonymous_read && config.admin_password.is_none());
    assert!(config.threads >= 1 && config.hash_threads >= 1);
}

#[test]
fn idle_timeouts_do_not_apply_in_trusted_networks() {
    let of = |file: &str| merged(Arguments::default(), file).unwrap().online;
    let usual = of("");
    assert_eq!(usual.idle_timeout, Some(limits::IDLE_TIMEOUT));
    assert_eq!(usual.first_request_timeout, Some(limits::FIRST_REQUEST_TIMEOUT));
    let trusts = |online: &OnlineSettings, address: &str| online.trusts(address.parse().unwrap());
    assert!(trusts(&usual, "127.3.2.1") && trusts(&usual, "::1") && trusts(&usual, "::ffff:127.0.0.1"));
    assert!(!trusts(&usual, "10.0.0.1") && !trusts(&usual, "2001:db8::1"));
    let settings =
        of("idle_timeout_seconds = 0\nfirst_request_seconds = 5\ntrusted_networks = [\"10.0.0.0/8\"]\n");
    assert_eq!((settings.idle_timeout, settings.first_request_timeout), (None, Some(Duration::from_secs(5))));
    assert!(trusts(&settings, "10.0.0.1") && !trusts(&settings, "127.0.0.1"));
}

#[test]
fn command_line_wins_over_file() {
    let file = "listen = [\"ldap://10.0.0.1:389\"]\nadmin_dn = \"cn=file\"\n";
    let arguments = Arguments { listen: vec!["ldap://127.0.0.1:0".parse().unwrap()], ..Arguments::default() };
    let config = merged(arguments, file).unwrap();
    assert_eq!(config.listen[0].to_string(), "ldap://127.0.0.1:0");
    assert_eq!(config.admin_dn, DnText("cn=file".to_owned()));
}

#[test]
fn a_listener_has_its_own_rules() {
    let file = "weakest_bind = \"password\"\nlisten = [\"ldap://127.0.0.1:1\"]\n[tls]\nclear_networks = []\n\
                [[listener]]\nurl = \"ldap://:389\"\ntls_needed_for = \"everything\"\n\
                [[listener]]\nurl = \"ldaps://:636\"\nweakest_bind = \"certificate\"\n";
    let config = merged(Arguments::default(), file).unwrap();
    let listen: Vec<_> = config.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["ldap://127.0.0.1:1", "ldap://:389", "ldaps://:636"]);
    let rules = |config: &Config, index| {
        let rules = config.online.rules(index);
        assert!(rules.clear_networks.is_empty());
        (rules.tls_needed_for, rules.weakest_bind)
    };
    let usual = (TlsNeed::Passwords, BindStrength::Password);
    assert_eq!(rules(&config, ListenerIndex(0)), usual);
    assert_eq!(rules(&config, ListenerIndex(1)), (TlsNeed::Everything, BindStrength::Password));
    assert_eq!(rules(&config, ListenerIndex(2)), (TlsNeed::Passwords, BindStrength::Certificate));
    assert_eq!(rules(&config, ListenerIndex::DATA_DIRECTORY), usual);
    // A reload finds the rules of the listeners that are open.
    let mut other =
        merged(Arguments::default(), &file.replace("listen = [\"ldap://127.0.0.1:1\"]", "")).unwrap();
    assert_eq!(rules(&other, ListenerIndex(0)), (TlsNeed::Everything, BindStrength::Password));
    other.listen.clone_from(&config.listen);
    let mut running = config.clone();
    running.take_online(other);
    assert_eq!(rules(&running, ListenerIndex(0)), usual);
    assert_eq!(rules(&running, ListenerIndex(2)), (TlsNeed::Passwords, BindStrength::Certificate));
    // The listeners of the command line come first, and the listeners of the node file follow.
    let listen = vec!["ldap://127.0.0.1:0".parse().unwrap()];
    let config = merged(Arguments { listen, ..Arguments::default() }, file).unwrap();
    assert_eq!(config.listen.len(), 3);
    assert_eq!(config.listen[0].to_string(), "ldap://127.0.0.1:0");
}

#[test]
fn a_data_directory_is_required() {
    let error = Config::load(&Arguments::default()).unwrap_err();
    assert!(matches!(error, ConfigError::NoDataDirectory));
}

#[test]
fn one_trailing_newline_of_a_password_file_is_ignored() {
    let directory = std::env::temp_dir().join(format!("pando-config-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("password");
    let check = |content: &str, expected: Option<&[u8]>| {
        std::fs::write(&file, content).unwrap();
        let arguments = Arguments { admin_password_file: Some(file.clone()), ..Arguments::default() };
        let password = merged(arguments, "").ok().and_then(|config| config.admin_password);
        assert_eq!(password.as_ref().map(|secret| &*secret.0), expected, "{content:?}");
    };
    check("secret\n", Some(b"secret"));
    check("secret", Some(b"secret"));
    check(" two lines\n\n", Some(b" two lines\n"));
    check("\n", None);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn debug_output_contains_no_password() {
    let arguments = Arguments { admin_password: Some(Secret(b"hunter2".to_vec())), ..Arguments::default() };
    let config = merged(arguments, "").unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn changed_settings_are_listed_with_their_need_for_a_restart() {
    let old = merged(Arguments::default(), "").unwrap();
    let new = merged(Arguments::default(), "threads = 77\n[log]\nlevel = \"debug\"\n").unwrap();
    assert_eq!(old.changes(&new), [("threads", false), ("log", true)]);
    assert!(old.changes(&old).is_empty());
    let mut updated = old.clone();
    updated.take_online(new.clone());
    assert_eq!(updated.changes(&new), [("threads", false)]);
}

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::Certificates;
use super::*;
use crate::config::TlsSettings;

/// 2026-01-01T00:00:00Z in seconds since 1970.
const START: i64 = 1_767_225_600;

const RENEWED_FROM: i64 = START + (OWN_CERTIFICATE_DAYS - OWN_CERTIFICATE_RENEWAL_DAYS) * DAY;

struct Data(PathBuf);

impl Data {
    fn new() -> Data {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pando-own-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Data(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join("tls").join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.file(name)).unwrap()
    }

    fn open_for(&self, hosts: &[&str], now: i64) -> Result<OwnCertificate, String> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        OwnCertificate::open(self.0.join("tls"), &hosts, now).map_err(|error| error.to_string())
    }

    fn open(&self, now: i64) -> Result<OwnCertificate, String> {
        self.open_for(&["ldap.example.com", "127.0.0.1", "::1", "localhost"], now)
    }

    /// Verifies the certificate at the time `now`, like a client that trusts the authority and connects to `host`.
    fn client(&self, host: &str, now: i64) -> Result<(), rustls::Error> {
        let leaf = first_certificate(&self.file("certificate.pem")).unwrap();
        check_signed(&leaf, &first_certificate(&self.file("authority.pem")).unwrap(), now)?;
        verify_server_name(&ParsedCertificate::try_from(&leaf)?, &ServerName::try_from(host).unwrap())
    }

    fn ends(&self) -> i64 {
        let file = self.file("certificate.pem");
        facts(&file, &first_certificate(&file).unwrap()).unwrap().not_after
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const FILES: [&str; 4] = ["authority-key.pem", "authority.pem", "key.pem", "certificate.pem"];

#[test]
fn an_authority_signs_the_certificate() {
    let data = Data::new();
    data.open(START).unwrap();
    for host in ["ldap.example.com", "127.0.0.1", "::1", "localhost"] {
        data.client(host, START).unwrap();
    }
    assert!(data.client("other.example.com", START).is_err());
    assert!(data.client("localhost", START + OWN_CERTIFICATE_DAYS * DAY + 1).is_err());
    // The certificate is also valid for a client whose clock is slow.
    data.client("localhost", START - DAY).unwrap();
    let modes = FILES.map(|name| fs::metadata(data.file(name)).unwrap().permissions().mode() & 0o777);
    assert_eq!(modes, [0o600, 0o644, 0o600, 0o644]);
    // The server sends the certificate of the authority last.
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&data.read("certificate.pem")).collect::<Result<_, _>>().unwrap();
    assert_eq!(chain[1..], [first_certificate(&data.file("authority.pem")).unwrap()]);
    // Each server's authority has a unique name.
    let other = Data::new();
    let own = other.open(START).unwrap();
    assert_ne!(
        own.authority_facts().unwrap().subject,
        data.open(START).unwrap().authority_facts().unwrap().subject
    );
}

#[test]
fn a_renewal_changes_nothing_for_clients() {
    let data = Data::new();
    let own = data.open(START).unwrap();
    let before = FILES.map(|name| data.read(name));
    assert!(!own.renew(RENEWED_FROM).unwrap());
    data.open(RENEWED_FROM).unwrap();
    assert_eq!(FILES.map(|name| data.read(name)), before, "not yet");
    let later = RENEWED_FROM + 1;
    assert!(own.renew(later).unwrap());
    assert!(!own.renew(later).unwrap(), "once");
    assert_eq!(FILES[..3].iter().map(|name| data.read(name)).collect::<Vec<_>>(), before[..3]);
    assert_eq!(data.ends(), later + OWN_CERTIFICATE_DAYS * DAY);
    data.client("localhost", START + OWN_CERTIFICATE_DAYS * DAY + 1).unwrap();
    // The renewed certificate has another serial number, because NSS refuses two certificates of an authority with the
    // same number.
    let serial = |pem: &[u8]| {
        let der = CertificateDer::from_pem_slice(pem).unwrap();
        // In the certificate, the serial number follows two headers and the version.
        assert_eq!(der[13..15], [0x02, 0x10]);
        der[15..31].to_vec()
    };
    assert_ne!(serial(&before[3]), serial(&data.read("certificate.pem")));
    // A start also renews the certificate, however late it is.
    let much_later = later + 2 * OWN_CERTIFICATE_DAYS * DAY;
    data.open(much_later).unwrap();
    data.client("localhost", much_later).unwrap();
}

#[test]
fn the_key_of_the_authority_can_be_stored_elsewhere() {
    let data = Data::new();
    let own = data.open(START).unwrap();
    let (key, elsewhere) = (data.file("authority-key.pem"), data.0.join("elsewhere"));
    fs::rename(&key, &elsewhere).unwrap();
    let before = data.read("certificate.pem");
    assert!(!own.renew(RENEWED_FROM + 1).unwrap());
    data.open(RENEWED_FROM + 1).unwrap();
    assert_eq!((data.read("certificate.pem"), key.exists()), (before, false));
    let advice = own.renewal_advice(RENEWED_FROM + 1);
    assert!(advice.contains(&format!("put it back as {}", key.display())), "{advice}");
    assert!(advice.contains("tls.certificate"), "{advice}");
    fs::rename(&elsewhere, &key).unwrap();
    assert!(own.renew(RENEWED_FROM + 1).unwrap());
    // If the certificate is missing, only the authority's key can sign a new certificate. The authority is not
    // replaced.
    fs::rename(&key, &elsewhere).unwrap();
    fs::remove_file(data.file("certificate.pem")).unwrap();
    let authority = data.read("authority.pem");
    let refused = data.open(START).unwrap_err();
    assert!(refused.contains(&format!("put the key back as {}", key.display())), "{refused}");
    assert_eq!(data.read("authority.pem"), authority);
    fs::rename(&elsewhere, &key).unwrap();
    data.open(START).unwrap();
    data.client("localhost", START).unwrap();
}

#[test]
fn warnings_precede_the_expiry_and_contain_advice() {
    let data = Data::new();
    let hosts = ["localhost".to_owned()];
    let certificates = Certificates::open(&TlsSettings::default(), &data.0, &hosts, START).unwrap();
    let end = START + OWN_CERTIFICATE_DAYS * DAY;
    assert_eq!(certificates.expiry(end - 30 * DAY), None);
    fs::rename(data.file("authority-key.pem"), data.0.join("elsewhere")).unwrap();
    assert!(!certificates.renew(end - 30 * DAY + 1).unwrap());
    let expiry = |now| certificates.expiry(now).unwrap();
    let (has_ended, text) = expiry(end - 30 * DAY + 1);
    assert!(!has_ended && text.contains("expires in 29 days: the key of its authority"), "{text}");
    let (has_ended, text) = expiry(end);
    assert!(has_ended && text.contains("has expired: the key of its authority"), "{text}");
    fs::rename(data.0.join("elsewhere"), data.file("authority-key.pem")).unwrap();
    assert!(certificates.renew(end).unwrap() && certificates.reload(None, end).unwrap());
    assert_eq!(certificates.expiry(end), None);
    assert_eq!(certificates.authority().unwrap().path, fs::canonicalize(data.file("authority.pem")).unwrap());
    // The last certificate that an authority signs expires with the authority. It is not renewed again and again.
    let last = START + OWN_AUTHORITY_DAYS * DAY - 10 * DAY;
    assert!(certificates.renew(last).unwrap() && certificates.reload(None, last).unwrap());
    assert!(!certificates.renew(last).unwrap());
    let (_, text) = expiry(last);
    assert!(text.contains("expires in 10 days: its authority ends, too"), "{text}");
}

#[test]
fn self_signed_certificates_remain_in_use() {
    let data = Data::new();
    fs::create_dir(data.0.join("tls")).unwrap();
    let key = KeyPair::generate().unwrap();
    let signed =
        dated(vec!["localhost".to_owned()], START, START + 10 * DAY).unwrap().self_signed(&key).unwrap();
    fs::write(data.file("certificate.pem"), signed.pem()).unwrap();
    fs::write(data.file("key.pem"), key.serialize_pem()).unwrap();
    let own = data.open(START).unwrap();
    assert!(!own.renew(START + 9 * DAY).unwrap());
    assert_eq!(data.read("certificate.pem"), signed.pem().as_bytes());
    assert_eq!((own.for_clients(), fs::read_dir(data.0.join("tls")).unwrap().count()), (None, 2));
    let advice = own.renewal_advice(START);
    assert!(advice.contains("self-signed") && advice.contains("move"), "{advice}");
}

/// Regression: after any error of `stat`, the server replaced a key.
#[test]
fn an_unreadable_file_is_an_error_and_is_kept() {
    // The folder is first a file, then a symbolic link to itself.
    let data = Data::new();
    fs::write(data.0.join("tls"), "precious").unwrap();
    assert!(data.open(START).unwrap_err().contains("Not a directory"));
    assert_eq!(fs::read(data.0.join("tls")).unwrap(), b"precious");
    fs::remove_file(data.0.join("tls")).unwrap();
    symlink("tls", data.0.join("tls")).unwrap();
    assert!(data.open(START).unwrap_err().contains("symbolic links"));
    // Each file is a link to a disk that is not mounted.
    for name in FILES {
        let data = Data::new();
        fs::create_dir(data.0.join("tls")).unwrap();
        symlink("/nowhere/precious.pem", data.file(name)).unwrap();
        let hosts = ["localhost".to_owned()];
        let refused = match Certificates::open(&TlsSettings::default(), &data.0, &hosts, START) {
            Ok(_) => panic!("{name}"),
            Err(error) => error.to_string(),
        };
        let named = if name == "authority.pem" { "authority-key.pem" } else { name };
        assert!(refused.contains(named), "{refused}");
        assert_eq!(fs::read_link(data.file(name)).unwrap(), Path::new("/nowhere/precious.pem"), "{name}");
    }
}

#[test]
fn an_interrupted_first_start_is_completed() {
    let whole = Data::new();
    whole.open(START).unwrap();
    for count in 0..FILES.len() {
        let data = Data::new();
        fs::create_dir(data.0.join("tls")).unwrap();
        for name in &FILES[..count] {
            fs::copy(whole.file(name), data.file(name)).unwrap();
        }
        fs::write(data.file("key.new"), "half a ke").unwrap();
        data.open(START).unwrap();
        data.client("localhost", START).unwrap();
        for name in &FILES[..count] {
            assert_eq!(data.read(name), whole.read(name), "{name} of {count}");
        }
    }
}

#[test]
fn a_start_adds_names_that_the_certificate_lacks() {
    let data = Data::new();
    data.open(START).unwrap();
    let names = ["localhost", "second.example.com"];
    fs::rename(data.file("authority-key.pem"), data.0.join("elsewhere")).unwrap();
    data.open_for(&names, START).unwrap();
    assert!(data.client("second.example.com", START).is_err(), "no authority can sign");
    fs::rename(data.0.join("elsewhere"), data.file("authority-key.pem")).unwrap();
    data.open_for(&names, START).unwrap();
    data.client("second.example.com", START).unwrap();
    let before = data.read("certificate.pem");
    data.open_for(&["localhost"], START).unwrap();
    assert_eq!(data.read("certificate.pem"), before, "it has them all");
}

#[test]
fn a_key_of_another_authority_is_refused() {
    let (data, other) = (Data::new(), Data::new());
    let own = data.open(START).unwrap();
    other.open(START).unwrap();
    fs::copy(other.file("authority-key.pem"), data.file("authority-key.pem")).unwrap();
    let before = data.read("certificate.pem");
    let refused = own.renew(RENEWED_FROM + 1).unwrap_err().to_string();
    assert!(refused.contains("does not belong to this authority"), "{refused}");
    assert_eq!(data.read("certificate.pem"), before);
    data.open(RENEWED_FROM + 1).unwrap();
}

#[test]
fn a_folder_closed_to_other_users_is_reported() {
    let data = Data::new();
    let own = data.open(START).unwrap();
    let set = |mode| fs::set_permissions(&data.0, Permissions::from_mode(mode)).unwrap();
    set(0o711);
    assert_eq!(own.for_clients().unwrap().closed_folder, None);
    set(0o700);
    let file = own.for_clients().unwrap();
    assert_eq!(file.closed_folder, Some(fs::canonicalize(&data.0).unwrap()));
    assert!(file.to_string().contains("copy it for users who may not enter"), "{file}");
}

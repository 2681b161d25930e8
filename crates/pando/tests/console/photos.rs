//! Photos, certificates, and values that name entries.

use crate::start_with_people;
use test_support::http::{Answer, Browser, quoted, send};
use test_support::tree::{add_person, person_dn};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Scratch};

/// The beginning of a JPEG, with octets that are not valid text.
const JPEG: &[u8] = b"\xff\xd8\xff\xe0\0\x10JFIF\0\xff\xfe\r\n--b\r\n\xff\xd9";

/// Sends a form that contains a file.
fn upload(browser: &Browser, dn: &str, photo: &[u8], token: &str) -> Answer {
    let field = |name: &str, value: &str| {
        format!("--boundary\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let file = "--boundary\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"a.jpg\"\r\n\r\n";
    let body = [
        field("token", token).as_bytes(),
        field("dn", dn).as_bytes(),
        file.as_bytes(),
        photo,
        b"\r\n--boundary--\r\n",
    ]
    .concat();
    let head = format!(
        "POST /photo/change HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nCookie: {}\r\nContent-Type: \
         multipart/form-data; boundary=boundary\r\nContent-Length: {}\r\n\r\n",
        browser.address,
        browser.cookie,
        body.len()
    );
    send(browser.address, &[head.as_bytes(), &body].concat())
}

#[test]
fn photos_are_uploaded_and_served_only_as_images() {
    let scratch = Scratch::new("console-photo");
    let (pando, mut administrator) = start_with_people(&scratch);
    add_person(&mut administrator, "anna");
    let dn = person_dn("anna");
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let put = |photo: &[u8]| upload(&browser, &dn, photo, &browser.token);
    assert_eq!(put(JPEG).status, 303, "{}", put(JPEG).text());
    let shown = browser.get(&format!("/photo?dn={}", quoted(&dn)));
    assert_eq!((shown.status, shown.body.as_slice()), (200, JPEG));
    assert_eq!(shown.headers("content-type"), ["image/jpeg"]);
    assert_eq!(shown.headers("x-content-type-options"), ["nosniff"]);
    assert!(shown.headers("content-security-policy").concat().contains("default-src 'none'"));
    assert!(browser.get(&format!("/entry?dn={}", quoted(&dn))).text().contains("photo?attribute=jpegPhoto"));
    // The server refuses scripts in disguise, files that are too large, and forms without the session's token.
    for no_photo in [&b"<svg onload=alert(1)>"[..], b"", b"GIF89a<script>", b"\x89PNG\r\n\x1a\n"] {
        assert_eq!(put(no_photo).status, 422);
    }
    assert_eq!(put(&[JPEG, &vec![0; 600 * 1024]].concat()).status, 422);
    assert_eq!(put(&[JPEG, &vec![0; 2 << 20]].concat()).status, 413);
    assert_eq!(upload(&browser, &dn, JPEG, "forged").status, 403);
    // An attribute that is not an image is not served as an image.
    assert_eq!(browser.get(&format!("/photo?dn={}&attribute=cn", quoted(&dn))).status, 404);
    let anna = Browser::signed_in(&pando, "anna", "anna-secret");
    assert_eq!(upload(&anna, &dn, JPEG, &anna.token).status, 403, "no right to write it");
    assert_eq!(browser.post("/photo/change", &[("dn", &dn), ("action", "remove")]).status, 303);
    assert_eq!(browser.get(&format!("/photo?dn={}", quoted(&dn))).status, 404);
    assert!(pando.stop().success());
}

/// A manager is entered by name. The confirmed change contains the DN that the preview showed.
#[test]
fn entered_names_are_completed_to_dns() {
    let scratch = Scratch::new("console-names");
    let (pando, mut administrator) = start_with_people(&scratch);
    for name in ["anna", "bert"] {
        add_person(&mut administrator, name);
    }
    let dn = person_dn("anna");
    let browser = Browser::signed_in(&pando, ADMIN_DN, ADMIN_PASSWORD);
    let csn = browser.json(&format!("/edit?dn={}", quoted(&dn)))["csn"].as_str().unwrap().to_owned();
    let shown = browser.post_json("/edit", &[("dn", &dn), ("csn", &csn), ("v:manager", "bert")]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.body).unwrap();
    assert!(shown["ldif"].as_str().unwrap().contains(&person_dn("bert")), "{shown}");
    assert_eq!(shown["fields"][0], serde_json::json!(["v:manager", person_dn("bert")]));
    let unknown = browser.post("/edit", &[("dn", &dn), ("csn", &csn), ("v:manager", "nobody")]);
    assert_eq!(unknown.status, 422);
    assert!(unknown.text().contains("value=\"nobody\""), "the form keeps what was entered");
    assert!(pando.stop().success());
}

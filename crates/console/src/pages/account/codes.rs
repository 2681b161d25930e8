//! Time-based codes that the user enters in addition to the password (RFC 6238). The page shows a new secret and its QR
//! code. The user confirms the secret with a code.
//!
//! The form contains the secret until it is confirmed. The console itself stores nothing. The server checks the code.

use axum::http::StatusCode;
use axum::response::Response;
use data_encoding::{BASE32_NOPAD, BASE64};
use ldap::OwnCredentials;
use qrcode::render::svg;
use qrcode::{EcLevel, QrCode};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::fields::Fields;
use crate::own;
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::texts::url;

/// Number of octets of a secret. RFC 4226 (section 4, R6) recommends this length.
const SECRET_SIZE: usize = 20;

/// Width and height of the QR code in pixels.
const QR_SIZE: u32 = 240;

pub(crate) async fn form(signed: SignedInRequest) -> Response {
    let page = signed.talk(own::read).await.and_then(|own| {
        let mut octets = Zeroizing::new([0; SECRET_SIZE]);
        getrandom::fill(octets.as_mut())
            .map_err(|_| PageError::Request(StatusCode::SERVICE_UNAVAILABLE, "account_page.not_random"))?;
        let secret = Zeroizing::new(BASE32_NOPAD.encode(octets.as_ref()));
        Ok(page(&signed.session.who, &secret, own, None))
    });
    signed.answer(page)
}

fn page(who: &str, secret: &str, own: Value, error: Option<Value>) -> Page {
    let address = provisioning(who, secret);
    let model = json!({
        "secret": secret, "address": address, "qr": picture(&address), "own": own, "error": error,
    });
    Page::new("codes.html", "codes.title", model)
}

/// Returns the URL from which an authenticator app takes the secret, in the format of Google Authenticator.
fn provisioning(who: &str, secret: &str) -> String {
    // In a query a space is encoded as `+`, but in a path it must be `%20`.
    let label = url("", &[("", who)]).trim_start_matches("?=").replace('+', "%20");
    format!("otpauth://totp/Pando:{label}?secret={secret}&issuer=Pando")
}

/// Returns the QR code of a text as an SVG image in base64. Returns `None` if the text is too long.
fn picture(text: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
    // The code is black on white even on a dark page, because some apps cannot read inverted codes.
    let picture = code
        .render::<svg::Color<'_>>()
        .min_dimensions(QR_SIZE, QR_SIZE)
        .dark_color(svg::Color("#000"))
        .light_color(svg::Color("#fff"))
        .build();
    Some(BASE64.encode(picture.as_bytes()))
}

/// Sets the secret if the code in the form is right, or removes the secret.
pub(crate) async fn change(Submission { signed, fields }: Submission) -> Response {
    let is_removal = fields.text("action") == "remove";
    let secret = Zeroizing::new(fields.text("secret").to_owned());
    let code: String = fields.text("code").chars().filter(char::is_ascii_digit).collect();
    let request = match is_removal {
        true => OwnCredentials::ClearCodes,
        false => OwnCredentials::SetCodes { secret: &secret, code: &code },
    };
    let password = Zeroizing::new(fields.text("password").to_owned());
    let proof = (signed.session.who.as_str(), password);
    let changed = own::change((&signed.app, signed.client.clone()), proof, request.encode()).await;
    let notice = if is_removal { "codes_removed" } else { "codes_set" };
    let error = match changed {
        Ok(_) => return signed.go(&url("/account", &[("notice", notice)])),
        Err(error) => error,
    };
    let is_usable = BASE32_NOPAD.decode(secret.as_bytes()).is_ok_and(|octets| octets.len() == SECRET_SIZE);
    if is_removal || !is_usable {
        return signed.fail(&error);
    }
    let (status, error) = (error.status(), signed.error_model(&error));
    let own = signed.talk(own::read).await;
    let shown = own.map(|own| Page { status, ..page(&signed.session.who, &secret, own, Some(error)) });
    signed.answer(shown)
}

/// Shows the form with which the user removes the secret.
pub(crate) async fn removal(signed: SignedInRequest, _: Fields) -> Response {
    signed.show(Page::new("codes_remove.html", "codes.remove_title", json!({})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provisioning_url_and_its_qr_code_are_valid() {
        let address = provisioning("uid=anna b,dc=x", "ABC");
        assert_eq!(address, "otpauth://totp/Pando:uid%3Danna%20b%2Cdc%3Dx?secret=ABC&issuer=Pando");
        let picture = BASE64.decode(picture(&address).unwrap().as_bytes()).unwrap();
        let text = String::from_utf8(picture).unwrap();
        assert!(text.contains("<svg") && text.contains("#000") && !text.contains("script"));
        assert_eq!(super::picture(&"x".repeat(10_000)), None);
    }
}

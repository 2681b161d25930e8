//! The user's own account: the password, time-based codes, application passwords and sessions.

pub(super) mod codes;
pub(super) mod seen;

use axum::http::StatusCode;
use axum::response::Response;
use ldap::OwnCredentials;
use serde_json::json;
use zeroize::Zeroizing;

use crate::fields::Fields;
use crate::own;
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let notice = signed.notice(&fields);
    let own = signed.talk(own::read).await;
    let page = own.map(|own| {
        let sessions = signed.app.sessions.of_user(&signed.session).len();
        let model = json!({
            "who": signed.session.who, "own": own, "sessions": sessions, "made": null, "notice": notice, "error": null,
        });
        Page::new("account.html", "account_page.title", model)
    });
    signed.answer(page)
}

/// Adds or removes an application password. A new password is shown only in this response.
pub(crate) async fn change_application(Submission { signed, fields }: Submission) -> Response {
    let name = fields.text("name").trim().to_ascii_lowercase();
    let is_removal = fields.text("action") == "remove";
    let days = fields.given("days").map(str::parse::<u32>).transpose();
    let changed = match (is_removal, days) {
        (false, Err(_)) => Err(PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "account_page.bad_days")),
        (is_removal, days) => {
            let request = match is_removal {
                true => OwnCredentials::RemoveApplication { name: &name },
                false => OwnCredentials::AddApplication { name: &name, days: days.unwrap_or_default() },
            };
            let password = Zeroizing::new(fields.text("password").to_owned());
            let proof = (signed.session.who.as_str(), password);
            own::change((&signed.app, signed.client.clone()), proof, request.encode()).await
        }
    };
    if changed.is_ok() && is_removal {
        return signed.go("/account?notice=application_removed");
    }
    let (status, generated, error) = match changed {
        Ok(generated) => (StatusCode::OK, generated, None),
        Err(error) => (error.status(), None, Some(signed.error_model(&error))),
    };
    let own = signed.talk(own::read).await;
    let page = own.map(|own| {
        let sessions = signed.app.sessions.of_user(&signed.session).len();
        let generated =
            generated.as_ref().map(|generated| json!({ "name": name, "password": generated.as_str() }));
        let model = json!({
            "who": signed.session.who, "own": own, "sessions": sessions, "made": generated, "notice": null,
            "error": error,
        });
        Page { status, ..Page::new("account.html", "account_page.title", model) }
    });
    signed.answer(page)
}

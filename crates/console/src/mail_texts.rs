//! Texts of the mails that the server sends, from the file with all texts.

use crate::texts::texts_of;

/// Texts of a mail with a link for setting a new password.
#[derive(Clone, Debug)]
pub struct MailTexts {
    /// Subject of the mail.
    pub subject: String,
    body: String,
}

impl MailTexts {
    /// Returns the texts in English.
    pub fn english() -> MailTexts {
        let texts = texts_of();
        let text = |name: &str| texts["mail"][name].as_str().unwrap_or_default().to_owned();
        MailTexts { subject: text("subject"), body: text("body") }
    }

    /// Returns the body of the mail for an account. The link is valid for `minutes` minutes, and was requested by a
    /// browser at the address `from`.
    pub fn body(&self, link: &str, account: &str, from: &str, minutes: u32) -> String {
        let body = self.body.replace("{minutes}", &minutes.to_string()).replace("{from}", from);
        // The account is inserted last, because it may be any text.
        body.replace("{link}", link).replace("{account}", account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mail_contains_every_value() {
        let texts = MailTexts::english();
        assert!(!texts.subject.is_empty());
        let body = texts.body("https://d/new-password?token=x", "uid={link},dc=x", "192.0.2.7", 30);
        for part in ["https://d/new-password?token=x\n", "uid={link},dc=x", "192.0.2.7", " 30 minutes"] {
            assert!(body.contains(part), "{part}: {body}");
        }
        assert!(!body.contains("{account}"), "{body}");
    }
}

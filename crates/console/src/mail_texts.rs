//! The texts of mails that the server sends. These texts come from the same file as the texts of the pages.

use crate::texts::texts_of;

/// The texts of a mail with a link for setting a new password.
#[derive(Clone, Debug)]
pub struct MailTexts {
    /// Subject of the mail.
    pub subject: String,
    body: String,
}

impl MailTexts {
    /// Returns the English texts.
    pub fn english() -> MailTexts {
        let texts = texts_of();
        let text = |name: &str| texts["mail"][name].as_str().unwrap_or_default().to_owned();
        MailTexts { subject: text("subject"), body: text("body") }
    }

    /// Returns the body of the mail to an account. The link is valid for `minutes` minutes. `from` is the address of
    /// the browser that requested the mail.
    pub fn body(&self, link: &str, account: &str, from: &str, minutes: u32) -> String {
        let body = self.body.replace("{minutes}", &minutes.to_string()).replace("{from}", from);
        // The account is inserted last, because it may contain any text, even a placeholder.
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

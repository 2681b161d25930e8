//! Diagnostic texts of searches that end before all results are sent.

use ldap::ResultCode;

use super::Search;

impl Search {
    /// Returns the text for an exceeded size limit: whose limit it is, its value, and a remedy.
    pub(super) fn size_limit_text(&self) -> String {
        let (asked, sent) = (self.asked.size, self.entries_sent());
        if self.paging.is_some() {
            // The limit of the settings shortens pages but does not end the sequence.
            format!(
                "the request's size limit of {asked} for all pages together is reached, and more entries match"
            )
        } else if asked != 0 && sent >= u64::from(asked) {
            format!("the request's size limit of {asked} is reached, and more entries match: ask for more")
        } else {
            let setting = if self.asked.has_own_size { "limit.size" } else { "limits.size_limit" };
            format!(
                "the server's size limit of {sent} ({setting}) is reached, and more entries match: ask in pages (RFC \
                 2696) or for less"
            )
        }
    }

    /// Returns the reason for stopping with this code, and a remedy.
    pub(super) fn stop_text(&self, code: ResultCode) -> String {
        if code == ResultCode::CANCELED {
            return "the client cancelled it, or closed its side of the connection".to_owned();
        }
        if code == ResultCode::E_SYNC_REFRESH_REQUIRED || (code == ResultCode::BUSY && self.is_listening()) {
            return "the client reads changes slower than they come: ask again for all that is there"
                .to_owned();
        }
        if code != ResultCode::TIME_LIMIT_EXCEEDED {
            return "the server ended the search before it was done: ask again later".to_owned();
        }
        let seconds = self.time_limit_seconds;
        if seconds == self.asked.time_seconds {
            return format!(
                "the request's time limit of {seconds} s is over: ask for less, or with a longer limit"
            );
        }
        let setting =
            if self.asked.has_own_time { "limit.time_seconds" } else { "limits.time_limit_seconds" };
        let pages = if self.paging.is_some() { "smaller pages" } else { "pages (RFC 2696)" };
        format!(
            "the server's time limit of {seconds} s ({setting}) is over: ask for less, in {pages}, or by an indexed \
             attribute"
        )
    }
}

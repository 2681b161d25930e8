//! State of the console that all requests share.

use crate::host::Ldap;
use crate::texts::Texts;

/// State of the console.
pub(crate) struct App {
    pub(crate) ldap: Ldap,
    pub(crate) texts: Texts,
}

impl App {
    pub(crate) fn new(ldap: Ldap, _is_secured: bool) -> App {
        App { ldap, texts: Texts::english() }
    }
}

//! State of the console that all requests share.

use tokio::sync::Semaphore;

use crate::describe::SchemaCache;
use crate::host::Ldap;
use crate::limits::EXPORTS_MAX;
use crate::sessions::Sessions;
use crate::texts::Texts;

/// State of the console.
pub(crate) struct App {
    pub(crate) ldap: Ldap,
    pub(crate) sessions: Sessions,
    pub(crate) texts: Texts,
    pub(crate) schema: SchemaCache,
    /// Exports that may begin.
    pub(crate) exports: Semaphore,
}

impl App {
    pub(crate) fn new(ldap: Ldap, is_secured: bool) -> App {
        App {
            ldap,
            sessions: Sessions::new(is_secured),
            texts: Texts::english(),
            schema: SchemaCache::default(),
            exports: Semaphore::new(EXPORTS_MAX),
        }
    }
}

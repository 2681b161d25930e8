//! The state of the console, which all requests share.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::describe::SchemaCache;
use crate::host::Ldap;
use crate::limits::{EXPORTS_MAX, HEALTH_CHECKS_MAX};
use crate::rates::Rates;
use crate::sessions::Sessions;
use crate::sign_ins::SignIns;
use crate::texts::Texts;

/// State of the console.
pub(crate) struct App {
    pub(crate) ldap: Ldap,
    pub(crate) sessions: Sessions,
    /// Sign-ins and health checks that are in progress. They need no session.
    pub(crate) sign_ins: SignIns,
    pub(crate) health_checks: Arc<Semaphore>,
    pub(crate) texts: Texts,
    pub(crate) schema: SchemaCache,
    pub(crate) rates: Rates,
    /// Permits for exports. They limit the number of concurrent exports.
    pub(crate) exports: Semaphore,
}

impl App {
    pub(crate) fn new(ldap: Ldap) -> App {
        App {
            ldap,
            sessions: Sessions::new(),
            sign_ins: SignIns::new(),
            health_checks: Arc::new(Semaphore::new(HEALTH_CHECKS_MAX)),
            texts: Texts::english(),
            schema: SchemaCache::default(),
            rates: Rates::default(),
            exports: Semaphore::new(EXPORTS_MAX),
        }
    }
}

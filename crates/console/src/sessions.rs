//! The sessions of the console. A session has a cookie and an LDAP connection.
//!
//! A session begins with a successful bind and always has a new random cookie. Therefore a cookie that an attacker has
//! planted in the browser has no effect. When a session is dropped, its connection is closed, and the bind ends in the
//! server too.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::http::{HeaderMap, HeaderValue, header};
use client::{ClientError, Connection};
use data_encoding::BASE64URL_NOPAD;
use subtle::ConstantTimeEq as _;

use crate::cookies;
use crate::limits::{
    SESSION_IDLE_TIME, SESSION_TIME, SESSIONS_MAX, SESSIONS_PER_IDENTITY_MAX, SESSIONS_PER_SOURCE_MAX,
};
use crate::places::{Place, Places};

/// Number of random octets of a cookie or of a form token, before they are encoded.
const RANDOM_OCTETS: usize = 32;

/// The decoded value of the cookie of a session.
type Cookie = [u8; RANDOM_OCTETS];

/// Number of octets of the id that a session has in a list.
const ID_OCTETS: usize = 12;

/// Maximum length of the stored name of a browser, in bytes.
const BROWSER_BYTES_MAX: usize = 200;

/// The session of a user who has signed in.
pub(crate) struct Session {
    cookie: Cookie,
    /// Id of the session in a list. It need not be secret, because it gives no access.
    pub(crate) id: String,
    /// Address of the browser at the time of the sign-in.
    pub(crate) from: IpAddr,
    /// Name that the browser reported. It can be any text.
    pub(crate) browser: String,
    /// DN of the user.
    pub(crate) who: String,
    /// entryUUID of the user, if it is known.
    pub(crate) entry_uuid: Option<String>,
    /// Method with which the user signed in.
    pub(crate) method: Method,
    /// Token that every form of the session contains. Another site does not know it and therefore cannot send a form.
    pub(crate) token: String,
    /// Whether the user must change the password before any other operation.
    pub(crate) must_change: AtomicBool,
    /// Whether the user can read `cn=monitor`. Pages then contain links to the pages for administrators.
    pub(crate) manages: bool,
    /// Whether the user can read the audit trail but not `cn=monitor`.
    pub(crate) audits: bool,
    pub(crate) started: Instant,
    last_use: Mutex<Instant>,
    /// Lock that a conversation holds. Thus a session occupies at most one thread.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    connection: Mutex<Connection>,
    _place: Place<IpAddr>,
}

/// Method with which a user signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Password,
    Certificate,
    /// A link that was sent by mail. The user need not enter the old password to set a new one.
    Mail,
}

impl Method {
    /// Returns the name of the method in texts and for scripts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Method::Password => "password",
            Method::Certificate => "certificate",
            Method::Mail => "mail",
        }
    }
}

/// The reason why a session cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSession {
    /// All places for sessions are in use, or the source of the request has too many sessions.
    TooMany,
    /// The system returns no random numbers.
    NotRandom,
}

/// A user who has successfully bound: the input for a new session.
pub(crate) struct BoundUser {
    /// DN of the user.
    pub(crate) who: String,
    /// entryUUID of the user, if it is known.
    pub(crate) entry_uuid: Option<String>,
    pub(crate) method: Method,
    /// Whether the user must change the password before any other operation.
    pub(crate) must_change: bool,
    pub(crate) manages: bool,
    /// Whether the user can read the audit trail but not `cn=monitor`.
    pub(crate) audits: bool,
    /// The connection on which the bind was made.
    pub(crate) connection: Connection,
    /// Address of the browser.
    pub(crate) from: IpAddr,
}

/// All sessions.
pub(crate) struct Sessions {
    by_cookie: Mutex<HashMap<Cookie, Arc<Session>>>,
    places: Arc<Places<IpAddr>>,
}

impl Session {
    /// Runs `talk` with the connection of the session. Blocks.
    pub(crate) fn with_connection<T>(&self, talk: impl FnOnce(&mut Connection) -> T) -> T {
        // A poisoned lock is usable. After a panic, answers may arrive for which no request waits, but the client
        // ignores answers with unknown message ids.
        talk(&mut self.connection.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if `token` is the token of the session.
    pub(crate) fn knows(&self, token: &str) -> bool {
        bool::from(self.token.as_bytes().ct_eq(token.as_bytes()))
    }

    pub(crate) fn must_change(&self) -> bool {
        self.must_change.load(Ordering::Relaxed)
    }

    /// Returns the time of the session's last request.
    pub(crate) fn last_use(&self) -> Instant {
        *self.last_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.started) >= SESSION_TIME
            || now.saturating_duration_since(self.last_use()) >= SESSION_IDLE_TIME
    }

    /// Compares the user by entryUUID, which a rename does not change. If one of the two is unknown, compares DNs in
    /// the form in which the server reports them.
    fn is_of(&self, who: &str, entry_uuid: Option<&str>) -> bool {
        match (self.entry_uuid.as_deref(), entry_uuid) {
            (Some(own), Some(other)) => own == other,
            _ => self.who.eq_ignore_ascii_case(who),
        }
    }
}

impl Sessions {
    pub(crate) fn new() -> Sessions {
        let places = Places::new(SESSIONS_MAX, SESSIONS_PER_SOURCE_MAX);
        Sessions { by_cookie: Mutex::default(), places }
    }

    /// Takes a place for a session. The caller must call this before the bind. If the place were taken after the bind,
    /// the answer would reveal whether the password is right even if no place is free.
    pub(crate) fn place(&self, source: IpAddr) -> Result<Place<IpAddr>, NoSession> {
        self.sweep(Instant::now());
        self.places.take(source).ok_or(NoSession::TooMany)
    }

    /// Begins a session. If the user has too many sessions, the oldest one ends.
    pub(crate) fn begin(
        &self,
        place: Place<IpAddr>,
        bound: BoundUser,
        headers: &HeaderMap,
    ) -> Result<Arc<Session>, NoSession> {
        let BoundUser { who, entry_uuid, method, must_change, manages, audits, connection, from } = bound;
        let now = Instant::now();
        let session = Arc::new(Session {
            cookie: random()?,
            id: BASE64URL_NOPAD.encode(&random::<ID_OCTETS>()?),
            from,
            browser: browser_of(headers),
            who,
            entry_uuid,
            method,
            token: BASE64URL_NOPAD.encode(&random::<RANDOM_OCTETS>()?),
            must_change: AtomicBool::new(must_change),
            manages,
            audits,
            started: now,
            last_use: Mutex::new(now),
            turn: Arc::default(),
            connection: Mutex::new(connection),
            _place: place,
        });
        let mut sessions = self.lock();
        let is_own = |other: &&Arc<Session>| other.is_of(&session.who, session.entry_uuid.as_deref());
        let own = || sessions.values().filter(is_own);
        if own().count() >= SESSIONS_PER_IDENTITY_MAX
            && let Some(oldest) = own().min_by_key(|other| other.started).map(|oldest| oldest.cookie)
        {
            sessions.remove(&oldest);
        }
        sessions.insert(session.cookie, Arc::clone(&session));
        Ok(session)
    }

    /// Returns the session of the cookie in a request; `None` if it has ended. The request counts as a use of the
    /// session, which extends the session's life.
    pub(crate) fn find(&self, headers: &HeaderMap, is_secured: bool, now: Instant) -> Option<Arc<Session>> {
        let session = self.find_unused(headers, is_secured, now)?;
        *session.last_use.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Some(session)
    }

    /// Returns the same session as [`find`](Sessions::find), but the request does not count as a use. Intended for
    /// requests that the browser sends without an action of the user.
    pub(crate) fn find_unused(
        &self,
        headers: &HeaderMap,
        is_secured: bool,
        now: Instant,
    ) -> Option<Arc<Session>> {
        let cookie = cookie_of(headers, is_secured)?;
        let session = Arc::clone(self.lock().get(&cookie)?);
        if session.is_over(now) {
            self.end(&session);
            return None;
        }
        Some(session)
    }

    /// Ends a session. A request in progress may still use its connection.
    pub(crate) fn end(&self, session: &Session) {
        self.lock().remove(&session.cookie);
    }

    /// Returns all sessions of the user of `own`. The newest one is first.
    pub(crate) fn of_user(&self, own: &Session) -> Vec<Arc<Session>> {
        self.sweep(Instant::now());
        let is_own = |session: &&Arc<Session>| session.is_of(&own.who, own.entry_uuid.as_deref());
        let mut found: Vec<_> = self.lock().values().filter(is_own).map(Arc::clone).collect();
        found.sort_by_key(|session| std::cmp::Reverse(session.started));
        found
    }

    /// Ends all sessions of a user, for example after a change of the password. `who` is the DN that the server
    /// reports.
    pub(crate) fn end_all_of(&self, who: &str, entry_uuid: Option<&str>) {
        self.lock().retain(|_, session| !session.is_of(who, entry_uuid));
    }

    /// Ends the session, unless its connection is still usable after `error`: after a timeout or an invalid filter.
    pub(crate) fn end_if_broken(&self, session: &Session, error: &ClientError) {
        if !matches!(error, ClientError::TimedOut | ClientError::Filter(_)) {
            self.end(session);
        }
    }

    /// Returns the header that sets the cookie of a session or removes it.
    pub(crate) fn set_cookie(
        &self,
        session: Option<&Session>,
        is_secured: bool,
    ) -> (header::HeaderName, HeaderValue) {
        let value = session.map(|session| BASE64URL_NOPAD.encode(&session.cookie)).unwrap_or_default();
        cookies::set(cookies::SESSION, &value, session.is_none().then_some(0), is_secured)
    }

    fn sweep(&self, now: Instant) {
        self.lock().retain(|_, session| !session.is_over(now));
    }

    /// The map is consistent after each statement. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, HashMap<Cookie, Arc<Session>>> {
        self.by_cookie.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cookie_of(headers: &HeaderMap, is_secured: bool) -> Option<Cookie> {
    let value = cookies::get(headers, cookies::SESSION, is_secured)?;
    BASE64URL_NOPAD.decode(value.as_bytes()).ok()?.try_into().ok()
}

/// Returns the name that the browser reports, cut to the maximum length.
fn browser_of(headers: &HeaderMap) -> String {
    let name = headers.get(header::USER_AGENT).and_then(|name| name.to_str().ok()).unwrap_or_default();
    name.chars().take(BROWSER_BYTES_MAX).collect()
}

fn random<const N: usize>() -> Result<[u8; N], NoSession> {
    let mut octets = [0; N];
    getrandom::fill(&mut octets).map_err(|_| NoSession::NotRandom)?;
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    fn begin(sessions: &Sessions, who: &str) -> (Arc<Session>, HeaderMap) {
        begin_as(sessions, who, None)
    }

    fn begin_as(sessions: &Sessions, who: &str, entry_uuid: Option<&str>) -> (Arc<Session>, HeaderMap) {
        let connection = Connection::over_local(UnixStream::pair().unwrap().0).unwrap();
        let place = sessions.place(IpAddr::from([192, 0, 2, 1])).unwrap();
        let from = IpAddr::from([192, 0, 2, 1]);
        let bound = BoundUser {
            who: who.to_owned(),
            entry_uuid: entry_uuid.map(str::to_owned),
            method: Method::Password,
            must_change: false,
            manages: false,
            audits: false,
            connection,
            from,
        };
        let session = sessions.begin(place, bound, &HeaderMap::new()).unwrap();
        let (_, cookie) = sessions.set_cookie(Some(&session), true);
        let mut headers = HeaderMap::new();
        let pair = cookie.to_str().unwrap().split(';').next().unwrap();
        headers.insert(header::COOKIE, format!("other=1; {pair}").parse().unwrap());
        (session, headers)
    }

    #[test]
    fn sessions_end_when_idle_or_too_old_or_on_request() {
        let sessions = Sessions::new();
        let (session, headers) = begin(&sessions, "a");
        let now = session.started;
        let later = |seconds| now + Duration::from_secs(seconds);
        let idle = SESSION_IDLE_TIME.as_secs();
        assert!(sessions.find(&headers, true, later(idle - 1)).is_some());
        assert!(sessions.find(&headers, true, later(2 * idle - 2)).is_some(), "used");
        assert!(sessions.find_unused(&headers, true, later(3 * idle - 3)).is_some(), "no use");
        assert!(sessions.find(&headers, true, later(3 * idle - 2)).is_none(), "idle");
        assert!(sessions.find(&headers, true, now).is_none(), "it has ended");

        let (_, headers) = begin(&sessions, "a");
        let mut at = 0;
        while at < SESSION_TIME.as_secs() - 1 {
            assert!(sessions.find(&headers, true, later(at)).is_some());
            at += idle - 1;
        }
        assert!(sessions.find(&headers, true, later(SESSION_TIME.as_secs() + 1)).is_none(), "its age");

        let (session, headers) = begin(&sessions, "a");
        sessions.end(&session);
        assert!(sessions.find(&headers, true, Instant::now()).is_none());
    }

    #[test]
    fn sessions_of_a_user_and_of_a_source_are_bounded() {
        let sessions = Sessions::new();
        let all: Vec<_> = (0..=SESSIONS_PER_IDENTITY_MAX).map(|_| begin(&sessions, "a")).collect();
        let now = Instant::now();
        let found = |index: usize| sessions.find(&all[index].1, true, now).is_some();
        assert!(!found(0) && (1..=SESSIONS_PER_IDENTITY_MAX).all(found));
        let others: Vec<_> =
            (all.len()..SESSIONS_PER_SOURCE_MAX).map(|n| begin(&sessions, &n.to_string())).collect();
        assert_eq!(sessions.place(IpAddr::from([192, 0, 2, 1])).err(), Some(NoSession::TooMany));
        assert!(sessions.place(IpAddr::from([192, 0, 2, 2])).is_ok());
        drop(others);
    }

    /// After a change of the password, all sessions of the user have ended. Other sessions continue.
    #[test]
    fn sessions_of_a_user_end_together() {
        let sessions = Sessions::new();
        let (first, _) = begin(&sessions, "uid=a,dc=b");
        let (second, _) = begin(&sessions, "UID=a,dc=b");
        let (_, other) = begin(&sessions, "uid=c,dc=b");
        let ids: Vec<_> = sessions.of_user(&first).iter().map(|session| session.id.clone()).collect();
        assert_eq!(ids.len(), 2);
        assert!(ids.contains(&first.id) && ids.contains(&second.id));
        sessions.end_all_of("uid=A,dc=b", None);
        assert!(sessions.of_user(&first).is_empty());
        assert!(sessions.find(&other, true, Instant::now()).is_some());
    }

    /// A user who was renamed after the sign-in is the same user. The next user with the old name is not.
    #[test]
    fn users_are_compared_by_entry_uuid() {
        let sessions = Sessions::new();
        let (renamed, _) = begin_as(&sessions, "uid=a,dc=b", Some("1"));
        let (next, _) = begin_as(&sessions, "uid=a,dc=b", Some("2"));
        let (unknown, _) = begin(&sessions, "uid=c,dc=b");
        sessions.end_all_of("uid=c,dc=b", Some("1"));
        let left = |session: &Arc<Session>| sessions.of_user(session).len();
        assert_eq!((left(&renamed), left(&next), left(&unknown)), (0, 1, 0));
    }

    #[test]
    fn cookies_are_restricted_to_this_host() {
        let cookie = |is_secured| {
            let sessions = Sessions::new();
            let (session, _) = begin(&sessions, "a");
            sessions.set_cookie(Some(&session), is_secured).1.to_str().unwrap().to_owned()
        };
        let secured = cookie(true);
        assert!(secured.starts_with("__Host-pando="));
        assert!(secured.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"));
        assert!(!cookie(false).contains("Secure") && cookie(false).starts_with("pando="));
        let sessions = Sessions::new();
        let mut headers = HeaderMap::new();
        for bad in ["", "pando", "__Host-pando=", "__Host-pando=AAAA", "__Host-pando=!", "x__Host-pando=AAAA"]
        {
            headers.insert(header::COOKIE, bad.parse().unwrap());
            assert!(sessions.find(&headers, true, Instant::now()).is_none(), "{bad}");
        }
    }
}

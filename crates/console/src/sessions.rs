//! Sessions of the console: a cookie, and the LDAP connection that belongs to it.
//!
//! A session begins with a successful bind and always has a new random cookie, so a cookie that an attacker planted
//! means nothing. Dropping a session closes its connection, so the server forgets the identity too.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::http::{HeaderMap, HeaderValue, header};
use client::{ClientError, Connection};
use data_encoding::BASE64URL_NOPAD;
use subtle::ConstantTimeEq as _;

use crate::limits::{
    SESSION_IDLE_TIME, SESSION_TIME, SESSIONS_MAX, SESSIONS_PER_IDENTITY_MAX, SESSIONS_PER_SOURCE_MAX,
};
use crate::places::{Place, Places};

/// Octets of a cookie and of a form's token before they are written as text.
const RANDOM_OCTETS: usize = 32;

/// A cookie's value, decoded.
type Cookie = [u8; RANDOM_OCTETS];

/// A user that has signed in.
pub(crate) struct Session {
    cookie: Cookie,
    /// DN of the user.
    pub(crate) who: String,
    /// Token that each form contains, so that other sites cannot send one.
    pub(crate) token: String,
    /// Whether the user may only change the password.
    pub(crate) must_change: AtomicBool,
    begun: Instant,
    last_use: Mutex<Instant>,
    /// Taken for each conversation, so that a session occupies one thread at most.
    pub(crate) turn: tokio::sync::Mutex<()>,
    connection: Mutex<Connection>,
    _place: Place<IpAddr>,
}

/// Reason why a session cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSession {
    /// All are in use, or those of the source.
    TooMany,
    /// The system has no random numbers.
    NotRandom,
}

/// All sessions.
pub(crate) struct Sessions {
    by_cookie: Mutex<HashMap<Cookie, Arc<Session>>>,
    places: Arc<Places<IpAddr>>,
    is_secured: bool,
}

impl Session {
    /// Runs `talk` with the session's connection. Blocks.
    pub(crate) fn with_connection<T>(&self, talk: impl FnOnce(&mut Connection) -> T) -> T {
        // A panic in the middle leaves answers that no request waits for; the client keeps them apart by their ids.
        talk(&mut self.connection.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a form contains the session's token.
    pub(crate) fn knows(&self, token: &str) -> bool {
        bool::from(self.token.as_bytes().ct_eq(token.as_bytes()))
    }

    pub(crate) fn must_change(&self) -> bool {
        self.must_change.load(Ordering::Relaxed)
    }

    fn is_over(&self, now: Instant) -> bool {
        let last_use = *self.last_use.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(self.begun) >= SESSION_TIME
            || now.saturating_duration_since(last_use) >= SESSION_IDLE_TIME
    }
}

impl Sessions {
    pub(crate) fn new(is_secured: bool) -> Sessions {
        let places = Places::new(SESSIONS_MAX, SESSIONS_PER_SOURCE_MAX);
        Sessions { by_cookie: Mutex::default(), places, is_secured }
    }

    /// Takes a place for a session. Take it before the bind, so that a right password is no hint while all are taken.
    pub(crate) fn place(&self, source: IpAddr) -> Result<Place<IpAddr>, NoSession> {
        self.sweep(Instant::now());
        self.places.take(source).ok_or(NoSession::TooMany)
    }

    /// Begins a session. If the user has too many, the oldest of them ends.
    pub(crate) fn begin(
        &self,
        place: Place<IpAddr>,
        who: String,
        must_change: bool,
        connection: Connection,
    ) -> Result<Arc<Session>, NoSession> {
        let now = Instant::now();
        let session = Arc::new(Session {
            cookie: random()?,
            who,
            token: BASE64URL_NOPAD.encode(&random()?),
            must_change: AtomicBool::new(must_change),
            begun: now,
            last_use: Mutex::new(now),
            turn: tokio::sync::Mutex::default(),
            connection: Mutex::new(connection),
            _place: place,
        });
        let mut sessions = self.lock();
        let own = || sessions.values().filter(|other| other.who == session.who);
        if own().count() >= SESSIONS_PER_IDENTITY_MAX
            && let Some(oldest) = own().min_by_key(|other| other.begun).map(|oldest| oldest.cookie)
        {
            sessions.remove(&oldest);
        }
        sessions.insert(session.cookie, Arc::clone(&session));
        Ok(session)
    }

    /// Returns the session of a request's cookie, if it is not over.
    pub(crate) fn find(&self, headers: &HeaderMap, now: Instant) -> Option<Arc<Session>> {
        let cookie = self.cookie_of(headers)?;
        let session = Arc::clone(self.lock().get(&cookie)?);
        if session.is_over(now) {
            self.end(&session);
            return None;
        }
        *session.last_use.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Some(session)
    }

    /// Ends a session. Requests that run finish with its connection.
    pub(crate) fn end(&self, session: &Session) {
        self.lock().remove(&session.cookie);
    }

    /// Ends the session if the server has closed its connection.
    pub(crate) fn end_if_broken(&self, session: &Session, error: &ClientError) {
        if !matches!(error, ClientError::TimedOut | ClientError::Filter(_)) {
            self.end(session);
        }
    }

    /// Returns the header that gives a browser the cookie of a session, or removes it.
    pub(crate) fn set_cookie(&self, session: Option<&Session>) -> (header::HeaderName, HeaderValue) {
        let value = session.map(|session| BASE64URL_NOPAD.encode(&session.cookie)).unwrap_or_default();
        let end = if session.is_some() { "" } else { "; Max-Age=0" };
        let secure = if self.is_secured { "; Secure" } else { "" };
        let text = format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{end}", self.name());
        // Base64 and these words are visible ASCII.
        (header::SET_COOKIE, HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("")))
    }

    /// Browsers accept the prefix only with TLS, from this host, for all paths.
    fn name(&self) -> &'static str {
        if self.is_secured { "__Host-pando" } else { "pando" }
    }

    fn cookie_of(&self, headers: &HeaderMap) -> Option<Cookie> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = pairs.find(|(name, _)| *name == self.name())?;
        BASE64URL_NOPAD.decode(value.as_bytes()).ok()?.try_into().ok()
    }

    fn sweep(&self, now: Instant) {
        self.lock().retain(|_, session| !session.is_over(now));
    }

    /// The map is whole after every step, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, HashMap<Cookie, Arc<Session>>> {
        self.by_cookie.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn random() -> Result<[u8; RANDOM_OCTETS], NoSession> {
    let mut octets = [0; RANDOM_OCTETS];
    getrandom::fill(&mut octets).map_err(|_| NoSession::NotRandom)?;
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    fn begin(sessions: &Sessions, who: &str) -> (Arc<Session>, HeaderMap) {
        let connection = Connection::over_local(UnixStream::pair().unwrap().0).unwrap();
        let place = sessions.place(IpAddr::from([192, 0, 2, 1])).unwrap();
        let session = sessions.begin(place, who.to_owned(), false, connection).unwrap();
        let (_, cookie) = sessions.set_cookie(Some(&session));
        let mut headers = HeaderMap::new();
        let pair = cookie.to_str().unwrap().split(';').next().unwrap();
        headers.insert(header::COOKIE, format!("other=1; {pair}").parse().unwrap());
        (session, headers)
    }

    #[test]
    fn sessions_end_by_disuse_by_age_and_by_order() {
        let sessions = Sessions::new(true);
        let (session, headers) = begin(&sessions, "a");
        let now = session.begun;
        let later = |seconds| now + Duration::from_secs(seconds);
        let idle = SESSION_IDLE_TIME.as_secs();
        assert!(sessions.find(&headers, later(idle - 1)).is_some());
        assert!(sessions.find(&headers, later(2 * idle - 2)).is_some(), "used");
        assert!(sessions.find(&headers, later(3 * idle - 2)).is_none(), "idle");
        assert!(sessions.find(&headers, now).is_none(), "it has ended");

        let (_, headers) = begin(&sessions, "a");
        let mut at = 0;
        while at < SESSION_TIME.as_secs() - 1 {
            assert!(sessions.find(&headers, later(at)).is_some());
            at += idle - 1;
        }
        assert!(sessions.find(&headers, later(SESSION_TIME.as_secs() + 1)).is_none(), "its age");

        let (session, headers) = begin(&sessions, "a");
        sessions.end(&session);
        assert!(sessions.find(&headers, Instant::now()).is_none());
    }

    #[test]
    fn sessions_of_a_user_and_of_a_source_are_bounded() {
        let sessions = Sessions::new(false);
        let all: Vec<_> = (0..=SESSIONS_PER_IDENTITY_MAX).map(|_| begin(&sessions, "a")).collect();
        let now = Instant::now();
        let found = |index: usize| sessions.find(&all[index].1, now).is_some();
        assert!(!found(0) && (1..=SESSIONS_PER_IDENTITY_MAX).all(found));
        let others: Vec<_> =
            (all.len()..SESSIONS_PER_SOURCE_MAX).map(|n| begin(&sessions, &n.to_string())).collect();
        assert_eq!(sessions.place(IpAddr::from([192, 0, 2, 1])).err(), Some(NoSession::TooMany));
        assert!(sessions.place(IpAddr::from([192, 0, 2, 2])).is_ok());
        drop(others);
    }

    #[test]
    fn cookies_are_for_this_host_alone() {
        let cookie = |is_secured| {
            let sessions = Sessions::new(is_secured);
            let (session, _) = begin(&sessions, "a");
            sessions.set_cookie(Some(&session)).1.to_str().unwrap().to_owned()
        };
        let secured = cookie(true);
        assert!(secured.starts_with("__Host-pando="));
        assert!(secured.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"));
        assert!(!cookie(false).contains("Secure") && cookie(false).starts_with("pando="));
        let sessions = Sessions::new(true);
        let mut headers = HeaderMap::new();
        for bad in ["", "pando", "__Host-pando=", "__Host-pando=AAAA", "__Host-pando=!", "x__Host-pando=AAAA"]
        {
            headers.insert(header::COOKIE, bad.parse().unwrap());
            assert!(sessions.find(&headers, Instant::now()).is_none(), "{bad}");
        }
    }
}

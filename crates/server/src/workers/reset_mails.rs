//! Mails to users who forgot their password, with a link for setting a new one.
//!
//! A request is queued and answered at once. The answer is the same whether the account exists or not. One thread finds
//! the account and creates a token of 256 random bits. Another thread sends the mail to the SMTP server. Therefore a
//! slow mail server does not delay finding accounts, and the length of the queue does not reveal whether accounts
//! exist.
//!
//! Only the SHA-256 digest of a token is stored, in memory. A restart invalidates all links. In a cluster only the node
//! that sent a link accepts it. An account has at most one token, and a token can be used once.
//!
//! Everything is bounded: waiting requests, requests per source, mails per account and in total, and the attempts to
//! send a mail. Failures are logged and counted.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use data_encoding::BASE64URL_NOPAD;
use directory::Directory;
use directory::reset_by_mail::{Recipient, recipient};
use directory::rows::EntryId;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{SmtpTransport, Transport as _};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::config::mail::{MailSettings, MailTls};
use crate::limits::mail::{
    MAIL_STEP_TIME, RESET_MAIL_RETRIES, RESET_MAILS_MAX, RESET_MAILS_PER_ACCOUNT_MAX, RESET_NAME_BYTES_MAX,
    RESET_PERIOD, RESET_REQUESTS_MAX, RESET_REQUESTS_PER_SOURCE_MAX, RESET_SOURCES_MAX,
};
use crate::net::request_memory::Source;
use crate::stamp::{Random, password_time};
use crate::web_client::with_causes;

/// Size of a token in octets, before it is encoded as text.
const TOKEN_OCTETS: usize = 32;

/// SMTP reply codes that concern all mails and not only the mail that was sent: the service is closing (RFC 5321
/// section 4.2.3), or authentication fails or is required (RFC 4954 section 6).
const REPLIES_ABOUT_ALL_MAILS: [u16; 6] = [421, 454, 530, 534, 535, 538];

/// SHA-256 digest of a token.
type TokenDigest = [u8; 32];

/// Error while starting the threads that send mail.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MailError {
    /// The certification authorities in the settings cannot be used.
    #[error("the table [mail] of the node file: {0}")]
    Settings(String),
    /// The system cannot start a thread.
    #[error("cannot start a thread for mail: {0}")]
    System(#[from] std::io::Error),
}

/// Figures about links for a password reset.
#[derive(Debug, Default)]
pub(crate) struct MailFigures {
    /// Number of accepted requests.
    pub(crate) requests: AtomicU64,
    /// Number of requests refused because of a limit.
    pub(crate) refused: AtomicU64,
    /// Number of mails that the mail server accepted.
    pub(crate) sent: AtomicU64,
    /// Number of mails that could not be created or sent.
    pub(crate) failed: AtomicU64,
    /// Number of links that were used.
    pub(crate) used: AtomicU64,
    /// Whether the last attempt to send a mail failed for a reason that concerns all mails.
    pub(crate) is_failing: AtomicBool,
}

/// Queue of requests, and the valid tokens. Dropping this struct ends the threads after the current mail.
pub(crate) struct ResetMails(Arc<Shared>);

struct Shared {
    settings: MailSettings,
    transport: SmtpTransport,
    /// Weak because the mail server may delay a thread until after the directory is closed.
    directory: Weak<Directory>,
    texts: console::MailTexts,
    state: Mutex<State>,
    arrived: Condvar,
    figures: Arc<MailFigures>,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    tokens: HashMap<TokenDigest, Token>,
    sources: HashMap<Source, Count>,
    unsent: Vec<UnsentMail>,
    is_closed: bool,
}

/// A request for a link.
struct Request {
    /// User name or mail address that the user entered.
    name: String,
    /// Address of the browser.
    from: SocketAddr,
}

struct Token {
    account: EntryId,
    /// Fingerprint of the account's passwords and addresses when the mail was created.
    fingerprint: u64,
    expires: Instant,
}

/// Number of events in the current period.
#[derive(Clone, Copy)]
struct Count {
    since: Instant,
    number: u32,
}

/// A mail that the mail server has not accepted yet.
struct UnsentMail {
    message: Message,
    dn: String,
    from: SocketAddr,
    digest: TokenDigest,
    retries: usize,
    due: Instant,
}

/// State of the thread that creates mails.
struct MailCreator {
    random: Random,
    accounts: HashMap<EntryId, Count>,
    all: Count,
}

impl Count {
    fn new(now: Instant) -> Count {
        Count { since: now, number: 0 }
    }

    fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= RESET_PERIOD
    }

    /// Counts an event, unless `max` events are already counted in this period. Returns true if it counts the event.
    fn take(&mut self, max: u32, now: Instant) -> bool {
        if self.is_old(now) {
            *self = Count::new(now);
        }
        let has_room = self.number < max;
        self.number += u32::from(has_room);
        has_room
    }
}

impl State {
    /// Counts a request from a source. Returns false if the source has sent too many requests.
    fn count(&mut self, source: Source, now: Instant) -> bool {
        if self.sources.len() >= RESET_SOURCES_MAX && !self.sources.contains_key(&source) {
            self.sources.retain(|_, count| !count.is_old(now));
            if self.sources.len() >= RESET_SOURCES_MAX {
                return false;
            }
        }
        let count = self.sources.entry(source).or_insert_with(|| Count::new(now));
        count.take(RESET_REQUESTS_PER_SOURCE_MAX, now)
    }

    /// Makes a token valid and invalidates an earlier token of the account.
    fn issue(&mut self, digest: TokenDigest, token: Token, now: Instant) {
        self.tokens.retain(|_, other| other.account != token.account && other.expires > now);
        self.tokens.insert(digest, token);
    }
}

impl ResetMails {
    /// Starts the threads.
    ///
    /// # Errors
    /// The certificates cannot be used, or the system cannot start a thread.
    pub(crate) fn start(
        settings: &MailSettings,
        directory: &Arc<Directory>,
    ) -> Result<ResetMails, MailError> {
        let shared = Arc::new(Shared {
            settings: settings.clone(),
            transport: transport(settings).map_err(MailError::Settings)?,
            directory: Arc::downgrade(directory),
            texts: console::MailTexts::english(),
            state: Mutex::default(),
            arrived: Condvar::new(),
            figures: Arc::default(),
        });
        // If the second thread cannot be started, dropping `mails` ends the first thread.
        let mails = ResetMails(shared);
        let (author, sender) = (Arc::clone(&mails.0), Arc::clone(&mails.0));
        std::thread::Builder::new().name("pando-links".to_owned()).spawn(move || author.write_mails())?;
        std::thread::Builder::new().name("pando-mail".to_owned()).spawn(move || sender.send_mails())?;
        Ok(mails)
    }

    /// Queues a request for a link. `name` is what the user entered, and `from` is the address of the browser. Returns
    /// false if too many requests wait or have come from the browser's network. The result does not depend on `name`.
    pub(crate) fn request(&self, name: &str, from: SocketAddr, now: Instant) -> bool {
        let source = Source::at(from.ip());
        let mut state = self.0.lock();
        if state.requests.len() >= RESET_REQUESTS_MAX || !state.count(source, now) {
            self.0.figures.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.0.figures.requests.fetch_add(1, Ordering::Relaxed);
        if name.len() <= RESET_NAME_BYTES_MAX {
            state.requests.push_back(Request { name: name.to_owned(), from });
            drop(state);
            self.0.arrived.notify_all();
        }
        true
    }

    /// Invalidates a token. Returns the account to which it was sent, and the account's fingerprint at that time.
    /// Returns `None` if the token is not valid at `now`.
    pub(crate) fn redeem(&self, token: &[u8], now: Instant) -> Option<(EntryId, u64)> {
        let octets = Zeroizing::new(BASE64URL_NOPAD.decode(token).ok()?);
        let token = self.0.lock().tokens.remove(&digest(&octets))?;
        if token.expires <= now {
            return None;
        }
        self.0.figures.used.fetch_add(1, Ordering::Relaxed);
        Some((token.account, token.fingerprint))
    }

    pub(crate) fn figures(&self) -> Arc<MailFigures> {
        Arc::clone(&self.0.figures)
    }
}

impl Drop for ResetMails {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.arrived.notify_all();
    }
}

impl Shared {
    fn write_mails(&self) {
        let now = Instant::now();
        let mut author =
            MailCreator { random: Random::default(), accounts: HashMap::default(), all: Count::new(now) };
        while let Some(request) = self.next_request() {
            self.handle(&mut author, &request);
        }
    }

    /// Waits for a request. Returns `None` if the threads must end.
    fn next_request(&self) -> Option<Request> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(request) = state.requests.pop_front() {
                return Some(request);
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn send_mails(&self) {
        while let Some(unsent) = self.next_unsent() {
            if let Some(again) = self.send(unsent) {
                self.lock().unsent.push(again);
            }
        }
    }

    /// Waits until a mail is due. Returns `None` if the threads must end.
    fn next_unsent(&self) -> Option<UnsentMail> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            let now = Instant::now();
            let dues = state.unsent.iter().map(|unsent| unsent.due).enumerate();
            state = match dues.min_by_key(|(_, due)| *due) {
                Some((place, due)) if due <= now => return Some(state.unsent.remove(place)),
                Some((_, due)) => {
                    let waited = self.arrived.wait_timeout(state, due.saturating_duration_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Finds the account of a request and queues a mail to its address.
    fn handle(&self, author: &mut MailCreator, request: &Request) {
        let Some(directory) = self.directory.upgrade() else { return };
        let found = match directory.snapshot() {
            Ok(snapshot) => recipient(&snapshot, &request.name, password_time()),
            Err(error) => return tracing::error!(%error, "no account was looked up for a link by mail"),
        };
        drop(directory);
        let recipient = match found {
            Ok(Some(recipient)) => recipient,
            Ok(None) => {
                let from = request.from;
                return tracing::info!(
                    "no link was sent: no account that may get one has the name that {from} gave"
                );
            }
            Err(outcome) => {
                let why = outcome.diagnostic;
                return tracing::error!("no account was looked up for a link by mail: {why}");
            }
        };
        let (now, dn) = (Instant::now(), &recipient.dn);
        author.accounts.retain(|_, count| !count.is_old(now));
        let has_room = self.lock().unsent.len() < RESET_REQUESTS_MAX;
        let count = author.accounts.entry(recipient.id).or_insert_with(|| Count::new(now));
        if !has_room
            || !count.take(RESET_MAILS_PER_ACCOUNT_MAX, now)
            || !author.all.take(RESET_MAILS_MAX, now)
        {
            self.figures.refused.fetch_add(1, Ordering::Relaxed);
            return tracing::warn!("no link was sent to {dn}: too many mails in an hour");
        }
        match self.write(&mut author.random, &recipient, request.from) {
            Ok((message, digest)) => {
                let expires = now + Duration::from_secs(60 * u64::from(self.settings.link_minutes));
                let Recipient { id, dn, fingerprint, .. } = recipient;
                let unsent = UnsentMail { message, dn, from: request.from, digest, retries: 0, due: now };
                let mut state = self.lock();
                state.issue(digest, Token { account: id, fingerprint, expires }, now);
                state.unsent.push(unsent);
                drop(state);
                self.arrived.notify_all();
            }
            Err(why) => {
                self.figures.failed.fetch_add(1, Ordering::Relaxed);
                tracing::error!("no link was sent to {dn}: {why}");
            }
        }
    }

    /// Creates a token and the mail that contains its link.
    fn write(
        &self,
        random: &mut Random,
        recipient: &Recipient,
        from: SocketAddr,
    ) -> Result<(Message, TokenDigest), String> {
        let mut octets = Zeroizing::new([0; TOKEN_OCTETS]);
        for part in octets.chunks_mut(16) {
            part.copy_from_slice(&random.bytes().map_err(|error| error.to_string())?);
        }
        let token = Zeroizing::new(BASE64URL_NOPAD.encode(&*octets));
        let MailSettings { console_url, link_minutes, sender, .. } = &self.settings;
        let link = format!("{console_url}new-password?token={}", &*token);
        let address = recipient.mail.parse();
        let address = address.map_err(|error| format!("its mail address cannot be used: {error}"))?;
        let id = random.bytes().map_err(|error| error.to_string())?;
        let id = format!("<{}@{}>", BASE64URL_NOPAD.encode(&id), sender.email.domain());
        let body =
            self.texts.body(&link, &recipient.dn, &from.ip().to_canonical().to_string(), *link_minutes);
        // This field asks mail servers not to answer automatically (RFC 3834 section 5).
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        let message = Message::builder()
            .from(sender.clone())
            .to(Mailbox::new(None, address))
            .message_id(Some(id))
            .subject(self.texts.subject.clone())
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
            .header(ContentType::TEXT_PLAIN)
            .body(body);
        Ok((message.map_err(|error| error.to_string())?, digest(&*octets)))
    }

    /// Sends a mail to the mail server. Returns the mail if it must be sent again.
    fn send(&self, unsent: UnsentMail) -> Option<UnsentMail> {
        let (dn, from) = (&unsent.dn, unsent.from);
        let sent = self.transport.send(&unsent.message);
        let is_failing = sent.as_ref().is_err_and(|error| {
            error.status().is_none_or(|code| REPLIES_ABOUT_ALL_MAILS.contains(&u16::from(code)))
        });
        self.figures.is_failing.store(is_failing, Ordering::Relaxed);
        let error = match sent {
            Ok(_) => {
                self.figures.sent.fetch_add(1, Ordering::Relaxed);
                tracing::info!("a link to set another password was sent to {dn}, for a request from {from}");
                return None;
            }
            Err(error) => error,
        };
        let why = with_causes(&error);
        match RESET_MAIL_RETRIES.get(unsent.retries).filter(|_| !error.is_permanent()) {
            Some(delay) => {
                tracing::warn!("the mail with a link for {dn} is sent again later: {why}");
                Some(UnsentMail { retries: unsent.retries + 1, due: Instant::now() + *delay, ..unsent })
            }
            None => {
                self.figures.failed.fetch_add(1, Ordering::Relaxed);
                self.lock().tokens.remove(&unsent.digest);
                tracing::error!("the mail with a link for {dn} could not be sent: {why}");
                None
            }
        }
    }

    /// The state is consistent after every step. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(token: &[u8]) -> TokenDigest {
    Sha256::digest(token).into()
}

/// Returns the transport to the mail server, without connecting.
fn transport(settings: &MailSettings) -> Result<SmtpTransport, String> {
    let tls = || -> Result<TlsParameters, String> {
        let mut builder = TlsParameters::builder(settings.host.clone());
        if let Some(file) = &settings.authorities {
            let failed = |error: &dyn std::error::Error| format!("authorities, {}: {error}", file.display());
            let pem = std::fs::read(file).map_err(|error| failed(&error))?;
            if CertificateDer::pem_slice_iter(&pem).next().is_none() {
                return Err(format!("authorities, {}: there is no certificate in it", file.display()));
            }
            let certificates = Certificate::from_pem(&pem).map_err(|error| failed(&error))?;
            builder = builder.certificate_store(CertificateStore::None).add_root_certificate(certificates);
        }
        builder.build().map_err(|error| with_causes(&error))
    };
    let tls = match settings.tls {
        MailTls::StartTls => Tls::Required(tls()?),
        MailTls::Implicit => Tls::Wrapper(tls()?),
        MailTls::None => Tls::None,
    };
    let mut builder = SmtpTransport::builder_dangerous(&settings.host)
        .port(settings.port)
        .timeout(Some(MAIL_STEP_TIME))
        .tls(tls);
    if let Some((user, password)) = &settings.credentials {
        let password = String::from_utf8_lossy(&password.0).into_owned();
        builder = builder.credentials(Credentials::new(user.clone(), password));
    }
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> Source {
        Source::at([192, 0, 2, last].into())
    }

    #[test]
    fn requests_of_a_source_are_counted_by_the_hour() {
        let (mut state, now) = (State::default(), Instant::now());
        for _ in 0..RESET_REQUESTS_PER_SOURCE_MAX {
            assert!(state.count(source(1), now));
        }
        assert!(!state.count(source(1), now));
        assert!(state.count(source(2), now));
        assert!(!state.count(source(1), now + RESET_PERIOD - Duration::from_secs(1)));
        assert!(state.count(source(1), now + RESET_PERIOD));
    }

    #[test]
    fn a_new_token_replaces_that_of_its_account_and_tokens_expire() {
        let (mut state, now) = (State::default(), Instant::now());
        let token = |account, minutes: u64| Token {
            account: EntryId(account),
            fingerprint: 0,
            expires: now + Duration::from_secs(60 * minutes),
        };
        state.issue([1; 32], token(7, 5), now);
        state.issue([2; 32], token(7, 5), now);
        state.issue([3; 32], token(8, 90), now);
        let mut digests: Vec<_> = state.tokens.keys().map(|digest| digest[0]).collect();
        digests.sort_unstable();
        assert_eq!(digests, [2, 3]);
        state.issue([4; 32], token(9, 90), now + Duration::from_secs(600));
        assert!(!state.tokens.contains_key(&[2; 32]) && state.tokens.len() == 2);
    }

    #[test]
    fn a_full_source_table_refuses_new_sources_until_rows_expire() {
        let (mut state, now) = (State::default(), Instant::now());
        for number in 0..u32::try_from(RESET_SOURCES_MAX).unwrap() {
            assert!(state.count(Source::at(std::net::Ipv4Addr::from_bits(number).into()), now));
        }
        assert!(!state.count(source(1), now));
        assert!(state.count(source(1), now + RESET_PERIOD));
        assert_eq!(state.sources.len(), 1);
    }
}

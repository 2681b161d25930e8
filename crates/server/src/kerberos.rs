//! Kerberos exchanges (GSSAPI, RFC 4752; GSS-SPNEGO, RFC 4178): handling of the client's messages.
//!
//! The library reads the keytab and writes the replay cache, so this code runs on the hash pool. While a job runs, it
//! owns the exchange. Between messages the session owns it. GSS-SPNEGO ends when the security context is established,
//! and messages are protected as the client requested from Kerberos. With GSSAPI, the server then offers security
//! layers, and the client chooses one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sasl::SaslError;
use sasl::gssapi::{OFFER, chosen};
use system::gss::{Acceptor, GssContext, GssError, GssMechanism, GssPeers};

use crate::limits::{KERBEROS_EXCHANGES_MAX, KERBEROS_TOKENS_MAX};

/// Number of exchanges in progress.
#[derive(Debug, Default)]
pub(crate) struct KerberosExchanges(Arc<AtomicUsize>);

/// Count of one exchange. Dropping it decreases the number.
struct Counted(Arc<AtomicUsize>);

/// Server side of an exchange.
pub(crate) struct KerberosExchange {
    mechanism: GssMechanism,
    context: GssContext,
    next: Expected,
    /// Number of tokens that the client has sent.
    tokens: u8,
    _counted: Counted,
}

/// Next message that the client must send.
#[derive(Clone, Copy)]
enum Expected {
    /// A token.
    Token,
    /// An empty message, which acknowledges the server's last token.
    Nothing,
    /// The client's choice of a security layer.
    Choice,
}

/// A message of the client, and its exchange.
pub(crate) struct KerberosJob {
    pub(crate) exchange: KerberosExchange,
    pub(crate) message: Vec<u8>,
    /// Channel binding data to which the client may have bound its ticket; `None` without TLS.
    pub(crate) channel: Option<Vec<u8>>,
}

/// Result of handling a message.
pub(crate) enum KerberosTurn {
    /// The exchange continues with this message of the server.
    Say(KerberosExchange, Vec<u8>),
    /// The client is authenticated.
    Authenticated(Authenticated),
    /// Authentication failed.
    Refused(GssError),
    /// The message is malformed, or requests something that the server does not offer.
    Unfit(SaslError),
}

/// Identity of an authenticated client.
pub(crate) struct Authenticated {
    pub(crate) peers: GssPeers,
    /// Authorization identity that the client requests; empty if it is the client's own.
    pub(crate) authorization: String,
    /// The server's last token.
    pub(crate) last: Option<Vec<u8>>,
}

impl KerberosExchanges {
    /// Begins an exchange; returns `None` if there are too many.
    pub(crate) fn begin(
        &self,
        mechanism: GssMechanism,
        acceptor: &Arc<Acceptor>,
    ) -> Option<KerberosExchange> {
        // Incremented before the check, so that two concurrent calls cannot exceed the bound.
        let counted = Counted(Arc::clone(&self.0));
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        (before < KERBEROS_EXCHANGES_MAX).then(|| KerberosExchange {
            mechanism,
            context: acceptor.begin(),
            next: Expected::Token,
            tokens: 0,
            _counted: counted,
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl KerberosExchange {
    /// Returns the GSS-API mechanism.
    pub(crate) fn mechanism(&self) -> GssMechanism {
        self.mechanism
    }

    /// Returns the server's next message, and the exchange that waits for the client's answer.
    fn say(self, next: Expected, message: Vec<u8>) -> KerberosTurn {
        KerberosTurn::Say(KerberosExchange { next, ..self }, message)
    }

    fn token(mut self, message: &[u8], channel: Option<&[u8]>) -> Result<KerberosTurn, GssError> {
        self.tokens += 1;
        if self.tokens > KERBEROS_TOKENS_MAX {
            return Ok(KerberosTurn::Unfit(SaslError::Malformed("the client does not come to an end")));
        }
        let step = self.context.step(message, channel)?;
        if !step.is_done {
            return Ok(self.say(Expected::Token, step.token));
        }
        match self.mechanism {
            GssMechanism::Kerberos if step.token.is_empty() => self.offer(),
            GssMechanism::Kerberos => Ok(self.say(Expected::Nothing, step.token)),
            GssMechanism::Spnego => {
                let last = (!step.token.is_empty()).then_some(step.token);
                self.authenticated(String::new(), last)
            }
        }
    }

    /// Sends the server's offer of security layers, which contains none.
    fn offer(mut self) -> Result<KerberosTurn, GssError> {
        let offer = self.context.wrap(&OFFER)?;
        Ok(self.say(Expected::Choice, offer))
    }

    fn choice(mut self, message: &[u8]) -> Result<KerberosTurn, GssError> {
        let choice = self.context.unwrap(message)?;
        match chosen(&choice) {
            Ok(authorization) => self.authenticated(authorization.to_owned(), None),
            Err(error) => Ok(KerberosTurn::Unfit(error)),
        }
    }

    fn authenticated(
        mut self,
        authorization: String,
        last: Option<Vec<u8>>,
    ) -> Result<KerberosTurn, GssError> {
        let peers = self.context.peers()?;
        // Such a client would protect all later messages, which the server could not read.
        if self.mechanism == GssMechanism::Spnego && peers.wants_protection {
            let text =
                "GSS-SPNEGO with a security layer is not offered: use TLS, and ask for none (-O maxssf=0)";
            return Ok(KerberosTurn::Unfit(SaslError::NotOffered(text)));
        }
        Ok(KerberosTurn::Authenticated(Authenticated { peers, authorization, last }))
    }
}

impl KerberosJob {
    /// Handles the message. May wait for the disk.
    pub(crate) fn run(self) -> KerberosTurn {
        let KerberosJob { exchange, message, channel } = self;
        let taken = match exchange.next {
            Expected::Token => exchange.token(&message, channel.as_deref()),
            Expected::Nothing if message.is_empty() => exchange.offer(),
            Expected::Nothing => {
                return KerberosTurn::Unfit(SaslError::Malformed("an empty message expected"));
            }
            Expected::Choice => exchange.choice(&message),
        };
        taken.unwrap_or_else(KerberosTurn::Refused)
    }
}

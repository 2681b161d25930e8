//! Kerberos exchanges (GSSAPI, RFC 4752; GSS-SPNEGO, RFC 4178): the handling of a client's message.
//!
//! The library reads the keytab and writes the replay cache, so this runs on the hash pool. An exchange belongs to the
//! job while it runs, and to the session between messages. GSS-SPNEGO ends with the context: protection of messages is
//! what the client requested from Kerberos. With GSSAPI, the client chooses from what the server offers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sasl::SaslError;
use sasl::gssapi::{OFFER, chosen};
use system::gss::{Acceptor, GssContext, GssError, GssMechanism, GssPeers};

use crate::limits::{KERBEROS_EXCHANGES_MAX, KERBEROS_TOKENS_MAX};

/// Count of present exchanges.
#[derive(Debug, Default)]
pub(crate) struct KerberosExchanges(Arc<AtomicUsize>);

/// A counted exchange. Dropping it subtracts it.
struct Counted(Arc<AtomicUsize>);

/// The server's end of an exchange.
pub(crate) struct KerberosExchange {
    mechanism: GssMechanism,
    context: GssContext,
    next: Expected,
    /// Tokens that the client has sent.
    tokens: u8,
    _counted: Counted,
}

/// Message expected from the client next.
#[derive(Clone, Copy)]
enum Expected {
    /// A token.
    Token,
    /// An empty message: the client has the server's last token.
    Nothing,
    /// Its choice from the offer.
    Choice,
}

/// A message of the client, for its exchange.
pub(crate) struct KerberosJob {
    pub(crate) exchange: KerberosExchange,
    pub(crate) message: Vec<u8>,
    /// Channel binding data that the client may have bound its ticket to; `None` without TLS.
    pub(crate) channel: Option<Vec<u8>>,
}

/// Result of a message.
pub(crate) enum KerberosTurn {
    /// The exchange continues with this message of the server.
    Say(KerberosExchange, Vec<u8>),
    /// The client is authenticated.
    Authenticated(Authenticated),
    /// Authentication failed.
    Refused(GssError),
    /// The message is malformed, or requests something that is not offered.
    Unfit(SaslError),
}

/// Identity of an authenticated client.
pub(crate) struct Authenticated {
    pub(crate) peers: GssPeers,
    /// Authorization identity that it requests; empty for its own.
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
        // Counted before the check, so that two concurrent calls cannot exceed the bound.
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
    /// Returns the mechanism.
    pub(crate) fn mechanism(&self) -> GssMechanism {
        self.mechanism
    }

    /// Returns the server's next message, and the exchange that waits for the answer.
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

    /// Sends the server's offer: no security layer.
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
    /// Handles the message. It may wait for the disk.
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

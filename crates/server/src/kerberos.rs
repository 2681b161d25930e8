//! The server's side of Kerberos exchanges (GSSAPI, RFC 4752; GSS-SPNEGO, RFC 4178).
//!
//! The Kerberos library reads the keytab and writes the replay cache. Therefore the messages are handled on the hash
//! pool. While a message is handled, its job owns the exchange. At other times the session owns the exchange. An
//! exchange of GSS-SPNEGO ends when the security context is established, and fails if the client requests a security
//! layer. In GSSAPI, after the security context is established, the server sends the list of its security layers, and
//! the client chooses a layer from the list.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sasl::SaslError;
use sasl::gssapi::{OFFER, chosen};
use system::gss::{Acceptor, GssContext, GssError, GssMechanism, GssPeers};

use crate::limits::{KERBEROS_EXCHANGES_MAX, KERBEROS_TOKENS_MAX};

/// The number of exchanges in progress.
#[derive(Debug, Default)]
pub(crate) struct KerberosExchanges(Arc<AtomicUsize>);

/// Counts one exchange in [`KerberosExchanges`]. Dropping this struct decreases the count.
struct CountedExchange(Arc<AtomicUsize>);

/// The server's side of one exchange.
pub(crate) struct KerberosExchange {
    mechanism: GssMechanism,
    context: GssContext,
    next: Expected,
    /// Number of tokens received from the client.
    tokens: u8,
    _counted: CountedExchange,
}

/// The message that the client must send next.
#[derive(Clone, Copy)]
enum Expected {
    /// A token of the Kerberos library.
    Token,
    /// An empty message. With it the client acknowledges the server's last token.
    Nothing,
    /// The client's choice of a security layer.
    Choice,
}

/// A message from the client together with its exchange. The hash pool handles it.
pub(crate) struct KerberosJob {
    pub(crate) exchange: KerberosExchange,
    pub(crate) message: Vec<u8>,
    /// The channel binding data of the connection; `None` without TLS. The client may have bound its ticket to the same
    /// data.
    pub(crate) channel: Option<Vec<u8>>,
}

/// The result of handling a message.
pub(crate) enum KerberosTurn {
    /// The exchange is not finished. The octets are the server's next message.
    Say(KerberosExchange, Vec<u8>),
    /// The client is authenticated.
    Authenticated(Authenticated),
    /// Authentication failed.
    Refused(GssError),
    /// The message is malformed, or requests something that the server does not support.
    Unfit(SaslError),
}

/// The result of a successful exchange.
pub(crate) struct Authenticated {
    pub(crate) peers: GssPeers,
    /// The authorization identity that the client requests. It is empty if the client requests none.
    pub(crate) authorization: String,
    /// The server's last token, which the response must contain.
    pub(crate) last: Option<Vec<u8>>,
}

impl KerberosExchanges {
    /// Starts an exchange. Returns `None` if too many are in progress.
    pub(crate) fn begin(
        &self,
        mechanism: GssMechanism,
        acceptor: &Arc<Acceptor>,
    ) -> Option<KerberosExchange> {
        // The number is incremented before it is compared. Otherwise two concurrent calls could together exceed the
        // limit.
        let counted = CountedExchange(Arc::clone(&self.0));
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

impl Drop for CountedExchange {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl KerberosExchange {
    /// Returns the GSS-API mechanism.
    pub(crate) fn mechanism(&self) -> GssMechanism {
        self.mechanism
    }

    /// Returns the result that sends `message` to the client and then waits for the message `next`.
    fn respond(self, next: Expected, message: Vec<u8>) -> KerberosTurn {
        KerberosTurn::Say(KerberosExchange { next, ..self }, message)
    }

    fn token(mut self, message: &[u8], channel: Option<&[u8]>) -> Result<KerberosTurn, GssError> {
        self.tokens += 1;
        if self.tokens > KERBEROS_TOKENS_MAX {
            return Ok(KerberosTurn::Unfit(SaslError::Malformed("the client does not come to an end")));
        }
        let step = self.context.step(message, channel)?;
        if !step.is_done {
            return Ok(self.respond(Expected::Token, step.token));
        }
        match self.mechanism {
            GssMechanism::Kerberos if step.token.is_empty() => self.offer(),
            GssMechanism::Kerberos => Ok(self.respond(Expected::Nothing, step.token)),
            GssMechanism::Spnego => {
                let last = (!step.token.is_empty()).then_some(step.token);
                self.authenticated(String::new(), last)
            }
        }
    }

    /// Sends the list of security layers that the server supports. The only choice in the list is no layer.
    fn offer(mut self) -> Result<KerberosTurn, GssError> {
        let offer = self.context.wrap(&OFFER)?;
        Ok(self.respond(Expected::Choice, offer))
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
        // A client that sets this flag would protect all later messages, and the server could not read them.
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
        let turn = match exchange.next {
            Expected::Token => exchange.token(&message, channel.as_deref()),
            Expected::Nothing if message.is_empty() => exchange.offer(),
            Expected::Nothing => {
                return KerberosTurn::Unfit(SaslError::Malformed("an empty message expected"));
            }
            Expected::Choice => exchange.choice(&message),
        };
        turn.unwrap_or_else(KerberosTurn::Refused)
    }
}

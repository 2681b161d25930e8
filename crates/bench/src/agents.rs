//! Load from several machines: an agent ([`serve`]) on each, and a coordinator ([`Machines`]) that runs a workload on
//! all of them and adds up their results.
//!
//! The messages ([`protocol`]) are JSON with a length prefix, in bounded sizes. A coordinator must prove that it has
//! the token before it may send any other message: the agent sends a nonce, and the coordinator answers with an HMAC of
//! the nonce. The token itself is never sent. Messages are neither encrypted nor signed, and some contain passwords for
//! the server. So agents listen on loopback by default, and should otherwise be on a separate network.
//!
//! In a run, the coordinator first compares versions and estimates the offset of each agent's clock from the shortest
//! of several round trips. It then sends the workload to the agents, with each agent's share of clients, rate and keys.
//! Agents prepare, connect, and report that they are ready. The coordinator then sends to each agent the time to begin,
//! in the time of that agent's own clock. Agents send a message every second. An agent that is silent, or whose
//! connection breaks, counts as dead. The other agents then run to the end, and the result is marked incomplete.

mod coordinate;
mod protocol;
mod serve;

pub use coordinate::{AgentError, Machines};
pub use serve::{Agent, AgentEvent};

/// Maximum size of a token file in octets.
pub const TOKEN_BYTES_MAX: usize = 1024;
/// Minimum size of a token in octets.
pub const TOKEN_BYTES_MIN: usize = 16;

/// A secret that coordinator and agents share.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl Token {
    /// Creates a token from the text of a file, without surrounding white space.
    ///
    /// # Errors
    /// The token is too short or too long.
    pub fn new(text: &str) -> Result<Token, String> {
        let text = text.trim();
        if !(TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len()) {
            return Err(format!(
                "a token has {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} characters, this one {}; make one with: openssl \
                 rand -hex 24",
                text.len()
            ));
        }
        Ok(Token(text.as_bytes().to_vec()))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token")
    }
}

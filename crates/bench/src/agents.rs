//! Several load machines as one: an agent ([`serve`]) on each, and a coordinator ([`Machines`]) that lets them run a
//! workload together and adds up what they measured.
//!
//! What goes over the wire is [`protocol`]: messages of JSON, each behind its length, in bounded sizes. Nobody gets
//! further than the first message who does not prove that they have the token: the agent sends a nonce, the coordinator
//! its HMAC. The token itself never travels; but what follows is neither encrypted nor signed, passwords for the server
//! included, so agents listen on loopback unless told otherwise, and belong on a network of their own.
//!
//! A run: the coordinator compares versions, estimates each agent's clock from the shortest of some round trips, and
//! sends the workload with each one's share of clients, rate and keys. Agents prepare, connect, and say so; when all
//! are ready they are told the moment to begin, each by its own clock. They send a word every second; one that is
//! silent, or whose connection breaks, is taken for dead: the others run to the end, and the result says that it is
//! incomplete.

mod coordinate;
mod protocol;
mod serve;

pub use coordinate::{AgentError, Machines};
pub use serve::{Agent, AgentEvent};

/// The longest token that is read.
pub const TOKEN_BYTES_MAX: usize = 1024;
/// The shortest token that is taken.
pub const TOKEN_BYTES_MIN: usize = 16;

/// A secret that coordinator and agents share.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl Token {
    /// Of the text of a file: what is around it is no part.
    ///
    /// # Errors
    /// What is wrong with it, when it is too short or too long.
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

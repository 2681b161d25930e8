//! Authentication of clients: passwords, SASL, TLS, tokens and codes.
//!
//! These tests are one binary, so that it is linked once and tests that wait can run at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bearer;
mod bind_names;
mod bind_shield;
mod gssapi;
mod pass_through;
mod password_policy;
mod password_state;
mod passwords;
mod proxied;
mod sasl;
mod self_service;
mod tls;
mod totp;
mod verify_credentials;

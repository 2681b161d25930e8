//! Small print of RFC 4511, 4512, 4514 and 4522 that clients rely on, over the wire.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use ldap::MessageId;
use support::{Pando, Scratch};

/// Clients sent `02 04 00 00 00 01` as a message id and lost their connection: X.690 section 8.3.2 forbids octets that only
/// repeat the sign, and the reader insisted. Every other server takes them.
#[test]
fn numbers_may_have_leading_zero_octets() {
    let scratch = Scratch::new("leading-zeros");
    let pando = Pando::start(&scratch);
    let mut connection = pando.connect();
    // An anonymous bind, version 3, and a search of the root DSE; all numbers in four octets.
    let bind = b"\x30\x10\x02\x04\0\0\0\x01\x60\x08\x02\x02\0\x03\x04\0\x80\0";
    let search = b"\x30\x34\x02\x04\0\0\0\x02\x63\x2c\x04\0\x0a\x04\0\0\0\0\x0a\x04\0\0\0\0\x02\x04\0\0\0\x05\x02\x04\0\0\0\x05\
                   \x01\x01\0\x87\x0bobjectClass\x30\0";
    connection.send_bytes(bind).unwrap();
    assert!(connection.reply(MessageId(1)).unwrap().outcome.is_success());
    connection.send_bytes(search).unwrap();
    let reply = connection.reply(MessageId(2)).unwrap();
    assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
}

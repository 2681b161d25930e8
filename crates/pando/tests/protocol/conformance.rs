//! Details of RFC 4511, 4512, 4514 and 4522 that clients rely on, over the network.

use ldap::{MessageId, ResultCode, Scope};
use test_support::tree::{person_dn, plant};
use test_support::{Pando, SUFFIX, Scratch};

/// Regression test: clients that sent `02 04 00 00 00 01` as a message id lost their connection. X.690 section 8.3.2
/// forbids such leading octets, but other servers accept them.
#[test]
fn numbers_may_have_leading_zero_octets() {
    let scratch = Scratch::new("leading-zeros");
    let pando = Pando::start(&scratch);
    let mut connection = pando.connect();
    // An anonymous bind with version 3, and a search of the root DSE, with all integers in four octets.
    let bind = b"\x30\x10\x02\x04\0\0\0\x01\x60\x08\x02\x02\0\x03\x04\0\x80\0";
    let search =
        b"\x30\x34\x02\x04\0\0\0\x02\x63\x2c\x04\0\x0a\x04\0\0\0\0\x0a\x04\0\0\0\0\x02\x04\0\0\0\x05\
                   \x02\x04\0\0\0\x05\x01\x01\0\x87\x0bobjectClass\x30\0";
    connection.send_bytes(bind).unwrap();
    assert!(connection.reply(MessageId(1)).unwrap().outcome.is_success());
    connection.send_bytes(search).unwrap();
    let reply = connection.reply(MessageId(2)).unwrap();
    assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
}

/// Regression test: in attribute descriptions, the option `;binary` was ignored for types without a binary form.
#[test]
fn binary_without_a_binary_form_is_unrecognized() {
    let scratch = Scratch::new("binary-option");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");
    let entry = admin.entry(&anna, &["cn;binary", "sn;binary", "uid"]).unwrap().unwrap();
    assert_eq!((entry.texts("uid"), entry.texts("cn").len()), (vec!["anna".to_owned()], 0));
    for filter in ["(uid;binary=anna)", "(!(uid;binary=anna))", "(uid;binary=*)"] {
        let found = admin.search(SUFFIX, Scope::WholeSubtree, filter, &["1.1"]).unwrap();
        assert_eq!((found.entries.len(), found.outcome.code), (0, ResultCode::SUCCESS), "{filter}");
    }
    let refused = admin.compare(&anna, "uid;binary", "anna").unwrap();
    assert_eq!(refused.code, ResultCode::UNDEFINED_ATTRIBUTE_TYPE, "{refused:?}");
    assert!(refused.diagnostic.contains("no binary form"), "{refused:?}");
}

/// Clients that cache the schema ask whether it has changed (RFC 4512 section 4.2).
#[test]
fn the_subschema_has_the_same_times_after_a_restart() {
    let scratch = Scratch::new("schema-times");
    let times = |pando: &Pando| {
        let entry = pando.connect().entry("cn=subschema", &["createTimestamp", "modifyTimestamp"]);
        let entry = entry.unwrap().unwrap();
        [entry.texts("createTimestamp").join(" "), entry.texts("modifyTimestamp").join(" ")]
    };
    let pando = Pando::start(&scratch);
    let before = times(&pando);
    assert!(before.iter().all(|time| time.len() == 15 && time.ends_with('Z')), "{before:?}");
    assert!(pando.stop().success());
    assert_eq!(times(&Pando::start(&scratch)), before);
}

use super::*;
use crate::operation::NodeId;

fn operation(sequence: u64) -> OperationId {
    OperationId { node: NodeId(2), incarnation: 3, sequence }
}

fn pair(value: &str) -> Pair {
    (value.as_bytes().to_vec(), b"computed".to_vec())
}

fn requests() -> Vec<Request> {
    let passwords = Prepared {
        hashed: vec![pair("one"), pair("two")],
        matched: vec![pair("three")],
        former: vec![b"four".to_vec()],
        former_matching: vec![b"five".to_vec(), Vec::new()],
        scram: vec![(b"six".to_vec(), vec!["seven".to_owned(), String::new()])],
        listed: vec![b"eight".to_vec()],
    };
    let update = AccountUpdate {
        failures: vec![1, -2],
        success: Some(3),
        clears_failures: true,
        grace: Some(i64::MIN),
        rehashed: Some(pair("nine")),
        keys: Some((b"ten".to_vec(), vec!["eleven".to_owned(), String::new()])),
        totp_step: Some(-12),
        app_uses: vec![("x-app-mail".to_owned(), 13), (String::new(), i64::MAX)],
    };
    let entry = ForwardedRequester::Entry { id: 77, dn: "uid=a,dc=example".to_owned() };
    let administrator = ForwardedRequester::Administrator { dn: "cn=admin".to_owned() };
    let request = |sequence, requester, method, network, work| Request {
        operation: operation(sequence),
        epoch: 6,
        link: Link { incarnation: 4, number: sequence },
        position: 1 << 40,
        requester,
        method,
        strength: 256,
        network,
        listener: network.map(|_| "ldaps".to_owned()),
        work,
    };
    let change = |passwords| Work::Change { message: b"message".to_vec(), passwords };
    let part = |message: &str, passwords: &Prepared| TransactionChange {
        message: message.as_bytes().to_vec(),
        passwords: passwords.clone(),
    };
    let transaction = Work::Transaction(vec![part("message", &passwords), part("", &Prepared::default())]);
    let v4 = Some(IpAddr::from([127, 0, 0, 1]));
    let v6 = Some(IpAddr::from([7; 16]));
    let sasl = BindMethod::Sasl("EXTERNAL".to_owned());
    vec![
        request(1, entry, BindMethod::Simple, v4, change(passwords)),
        request(2, ForwardedRequester::Anonymous, BindMethod::None, None, change(Prepared::default())),
        request(3, administrator.clone(), sasl, v6, Work::Account { id: 5, update }),
        request(5, administrator.clone(), BindMethod::None, v4, transaction),
        request(
            4,
            administrator,
            BindMethod::Simple,
            v6,
            Work::Account { id: 6, update: AccountUpdate::default() },
        ),
    ]
}

fn answers() -> Vec<Answer> {
    let result = LdapResult {
        code: 68,
        matched_dn: "dc=example".to_owned(),
        diagnostic: "text".to_owned(),
        referrals: vec!["ldap://a/".to_owned()],
        policy: Some(8),
        value: Some(b"value".to_vec()),
    };
    let replies = [
        Reply::Decided { position: 9, result },
        Reply::Decided { position: 9, result: LdapResult::default() },
        Reply::Applied { position: 10 },
        Reply::TooOld,
        Reply::NotWriter,
    ];
    replies.into_iter().map(|reply| Answer { operation: operation(8), reply }).collect()
}

#[test]
fn frames_decode_as_encoded() {
    assert!(decode_requests(&encode_requests(&requests())) == Some(requests()));
    assert!(decode_answers(&encode_answers(&answers())) == Some(answers()));
    assert!(decode_requests(&encode_requests(&[])) == Some(Vec::new()));
}

#[test]
fn refuses_incomplete_frames() {
    let (requests, answers) = (encode_requests(&requests()), encode_answers(&answers()));
    for length in 0..requests.len() {
        assert!(decode_requests(&requests[..length]).is_none(), "{length}");
    }
    for length in 0..answers.len() {
        assert!(decode_answers(&answers[..length]).is_none(), "{length}");
    }
    for mut frame in [requests, answers] {
        frame.push(0);
        assert!(decode_requests(&frame).is_none() && decode_answers(&frame).is_none());
        frame.pop();
        frame[0] = 2;
        assert!(decode_requests(&frame).is_none() && decode_answers(&frame).is_none());
    }
}

#[test]
fn announced_counts_are_limited() {
    let mut frame = encode_answers(&vec![answers().pop().unwrap(); FRAME_ITEMS_MAX]);
    assert!(decode_answers(&frame).is_some());
    frame = encode_answers(&vec![answers().pop().unwrap(); FRAME_ITEMS_MAX + 1]);
    assert!(decode_answers(&frame).is_none());
    let with = |count| {
        let result = LdapResult { referrals: vec![String::new(); count], ..LdapResult::default() };
        let answer = Answer { operation: operation(1), reply: Reply::Decided { position: 1, result } };
        decode_answers(&encode_answers(&[answer])).is_some()
    };
    assert!(with(LIST_ITEMS_MAX) && !with(LIST_ITEMS_MAX + 1));
    assert!(decode_requests(&[VERSION, 0xff, 0xff, 0xff, 0xff]).is_none());
}

#[test]
fn diagnostics_of_requests_contain_no_values() {
    let shown = format!("{:?} {:?}", requests(), answers());
    assert!(["one", "message", "value", "text"].iter().all(|value| !shown.contains(value)), "{shown}");
}

#[test]
fn only_the_latest_copy_of_a_request_is_admitted() {
    let (mut gate, requests) = (Gate::default(), requests());
    let (node, [first, second, ..]) = (NodeId(2), &requests[..]) else { panic!() };
    assert!(gate.admits(node, first, 6) && !gate.admits(node, first, 7));
    gate.see(node, second.link);
    gate.see(node, first.link);
    assert!(!gate.admits(node, first, 6) && gate.admits(node, second, 6));
    assert!(gate.admits(NodeId(3), first, 6));
    gate.see(node, Link { incarnation: 5, number: 1 });
    assert!(!gate.admits(node, second, 6));
}

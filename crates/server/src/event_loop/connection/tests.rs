use super::*;
use crate::limits::STALL_TIMEOUT;

#[test]
fn an_idle_connection_costs_a_few_hundred_bytes() {
    let size = size_of::<Connection>();
    assert!(size <= 400, "{size}");
}

/// Octets from the peer were progress even while it read none of its answers.
#[test]
fn a_peer_that_sends_octets_and_reads_no_answers_stalls() {
    let (server, _peer) = mio::net::UnixStream::pair().unwrap();
    let place = ConnectionPlace { number: 1, slot: 0, listener: ListenerIndex(0) };
    let requester = Arc::new(directory::Requester::Anonymous);
    let session = Session::new(place, requester, &Peer::Local(None), false);
    let start = Instant::now();
    let mut connection = Connection::new(Stream::local(server), session, start, false);
    connection.has_requested = true;
    let answered = start + STALL_TIMEOUT;
    connection.note_received(answered);
    connection.output = vec![0; 16 << 20];
    // The first send fills the socket's buffer.
    assert!(connection.send_at(answered).is_some_and(|accepted| accepted > 0));
    let later = answered + STALL_TIMEOUT / 2;
    assert_eq!(connection.send_at(later), Some(0));
    connection.note_received(later);
    assert!(!connection.has_stalled(later));
    assert!(connection.has_stalled(answered + STALL_TIMEOUT));
    // Without unsent answers, octets are progress again.
    connection.output.clear();
    connection.sent = 0;
    assert_eq!(connection.send_at(later), Some(0));
    connection.note_received(later);
    assert!(!connection.has_stalled(answered + STALL_TIMEOUT));
}

#[test]
fn moves_input_before_growing_the_buffer() {
    let check = |len: usize, mut consumed: usize, expected: (usize, usize, bool)| {
        let mut input = Vec::with_capacity(64);
        input.resize(len, 7);
        make_room(&mut input, &mut consumed);
        assert_eq!((input.len(), consumed, input.capacity() > 64), expected);
    };
    check(0, 0, (0, 0, false));
    check(10, 10, (0, 0, false));
    check(10, 4, (10, 4, false));
    check(64, 60, (4, 0, false));
    check(64, 0, (64, 0, true));
}

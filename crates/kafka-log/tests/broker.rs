//! Test of the three clients with a real broker.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use kafka_broker::Brokers;
use kafka_log::{
    Appender, Election, Event, LogError, Reader, Settings, Sink, create_topic, delete_before, fetch,
    topic_facts,
};

/// Time limit for events that always arrive unless there is a defect.
const DEADLINE: Duration = Duration::from_secs(60);

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn events() -> (Sink, Receiver<Event>) {
    let (sender, receiver) = channel();
    (Arc::new(move |event| drop(sender.send(event))), receiver)
}

/// Returns the first event for which `wanted` returns a value.
fn next<T>(events: &Receiver<Event>, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        let left = DEADLINE.checked_sub(started.elapsed()).expect("an event in time");
        if let Some(found) = wanted(events.recv_timeout(left).expect("an event in time")) {
            return found;
        }
    }
}

fn next_message(events: &Receiver<Event>) -> kafka_log::Message {
    next(events, |event| match event {
        Event::Message(message) => Some(message),
        Event::Lost(reason) => panic!("lost: {reason}"),
        _ => None,
    })
}

fn next_election(events: &Receiver<Event>) -> bool {
    next(events, |event| if let Event::Elected(elected) = event { Some(elected) } else { None })
}

/// Connects with TLS and certificates, and with TLS and a password. A client without the required credentials gets an
/// error that names them.
fn connections_are_protected(brokers: &Brokers, settings: &Settings) {
    let security = brokers.security().unwrap();
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let partition_count = |addresses: String, properties: &[(&str, &str)]| {
        let properties = properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let brokers = addresses;
        let settings = Settings { brokers, properties: properties.collect(), ..settings.clone() };
        topic_facts(&settings).map(|facts| facts.partitions).map_err(|error| error.to_string())
    };
    let (ca, certificate, key) = (text(&security.ca), text(&security.certificate), text(&security.key));
    let tls = [("security.protocol", "ssl"), ("ssl.ca.location", &*ca)];
    let own = [("ssl.certificate.location", &*certificate), ("ssl.key.location", &*key)];
    assert_eq!(partition_count(brokers.tls_bootstrap(), &[tls, own].concat()), Ok(1));
    let refused = |answer: Result<usize, String>, text: &str| {
        let error = answer.unwrap_err();
        assert!(error.to_lowercase().contains(text), "{text}: {error}");
    };
    refused(partition_count(brokers.tls_bootstrap(), &tls), "ssl");
    refused(partition_count(brokers.tls_bootstrap(), &[tls[0]]), "certificate verify failed");

    for mechanism in ["PLAIN", "SCRAM-SHA-512"] {
        let who = |password| {
            let (user, ca) = (security.user(), &*ca);
            let protocol = [("security.protocol", "sasl_ssl"), ("ssl.ca.location", ca)];
            let sasl = [("sasl.mechanism", mechanism), ("sasl.username", user), ("sasl.password", password)];
            [&protocol[..], &sasl].concat()
        };
        assert_eq!(
            partition_count(brokers.sasl_bootstrap(), &who(security.password())),
            Ok(1),
            "{mechanism}"
        );
        refused(partition_count(brokers.sasl_bootstrap(), &who("wrong")), "authentication");
    }
    refused(partition_count(brokers.sasl_bootstrap(), &tls), "kafka");
}

#[test]
fn a_topic_is_a_log() {
    let scratch = Scratch(std::env::temp_dir().join(format!("pando-kafka-log-{}", std::process::id())));
    std::fs::create_dir_all(&scratch.0).unwrap();
    let brokers = Brokers::start_secured(1, &scratch.0).unwrap();
    let settings = Settings {
        brokers: brokers.bootstrap(),
        topic: "pando".to_owned(),
        group: "pando".to_owned(),
        session_timeout_ms: 2_000,
        append_timeout_ms: 10_000,
        properties: Vec::new(),
    };

    // A topic is created with suitable settings.
    assert!(matches!(topic_facts(&settings), Err(LogError::NoTopic(_))));
    create_topic(&settings, 1).unwrap();
    let facts = topic_facts(&settings).unwrap();
    assert_eq!(facts.problems(), Vec::<String>::new());
    assert!((1_000_000..2_000_000).contains(&facts.message_bytes_max), "{facts:?}");
    assert!(create_topic(&settings, 1).is_err(), "the topic exists");

    connections_are_protected(&brokers, &settings);

    // Appended messages are read in order.
    let (sink, received) = events();
    let appender = Appender::start(&settings, Arc::clone(&sink)).unwrap();
    let _reader = Reader::start(&settings, 0, sink).unwrap();
    for number in 0..3_u8 {
        appender.append(usize::from(number), b"hint", &[number]);
        let (mut appended, mut read) = (None, None);
        while appended.is_none() || read.is_none() {
            next(&received, |event| {
                match event {
                    Event::Appended { ticket, offset } => appended = Some((ticket, offset)),
                    Event::Message(message) => read = Some(message),
                    Event::Failed { reason, .. } => panic!("{reason}"),
                    _ => return None,
                }
                Some(())
            });
        }
        assert_eq!(appended, Some((usize::from(number), u64::from(number))));
        let message = read.unwrap();
        assert_eq!(
            (message.offset, &*message.key, &*message.bytes),
            (u64::from(number), &b"hint"[..], &[number][..])
        );
    }
    let (from_one, received) = events();
    let _late = Reader::start(&settings, 1, from_one).unwrap();
    assert_eq!([next_message(&received).offset, next_message(&received).offset], [1, 2]);

    // Fetches a single message. Then fetches at an offset that has no message.
    let (message, start, end) = fetch(&settings, 1, DEADLINE).unwrap();
    assert_eq!((message.unwrap().bytes, start, end), (vec![1], 0, 3));
    assert_eq!(fetch(&settings, 3, DEADLINE).unwrap(), (None, 0, 3));
    let (sink, received) = events();
    let _beyond = Reader::start(&settings, 7, sink).unwrap();
    next(&received, |event| if let Event::Lost(_) = event { Some(()) } else { None });

    // Messages before an offset are deleted, and offsets do not change.
    assert_eq!(delete_before(&settings, 2).unwrap(), 2);
    let (message, start, end) = fetch(&settings, 2, DEADLINE).unwrap();
    assert_eq!((message.unwrap().bytes, start, end), (vec![2], 2, 3));
    assert_eq!(fetch(&settings, 1, DEADLINE).unwrap(), (None, 2, 3));

    // A message larger than the topic's limit is certainly not in the log.
    let (sink, received) = events();
    let large = Appender::start(&settings, sink).unwrap();
    large.append(7, b"", &vec![0; 3_000_000]);
    let error = next(&received, |event| match event {
        Event::Failed { ticket: 7, error, .. } => Some(error),
        _ => None,
    });
    assert_eq!(error, replication::AppendError::NotAppended);

    // One of two candidates is elected. This candidate stays elected when the other candidate joins. When the elected
    // candidate leaves, the other candidate is elected.
    let (sink, first_said) = events();
    let first = Election::start(&settings, sink).unwrap();
    assert!(next_election(&first_said));
    let end = next(&first_said, |event| if let Event::Ends { ends, .. } = event { Some(ends) } else { None });
    assert_eq!(end, Ok((2, 3)));
    let (sink, second_said) = events();
    let _second = Election::start(&settings, sink).unwrap();
    drop(first);
    assert!(next_election(&second_said));
    assert!(first_said.try_iter().all(|event| !matches!(event, Event::Elected(true))), "elected once");
}

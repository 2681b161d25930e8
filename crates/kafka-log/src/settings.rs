//! How Kafka is reached.

use rdkafka::ClientConfig;

/// Which topic on which brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `host:port` of some brokers, separated by commas.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// The consumer group in which the writer is elected.
    pub group: String,
    /// After how long without a sign of life a writer loses the election, in milliseconds. The brokers bound it from
    /// below (`group.min.session.timeout.ms`, 6000 unless it is set).
    pub session_timeout_ms: u32,
    /// For how long an append is tried, in milliseconds.
    pub append_timeout_ms: u32,
    /// Further settings of librdkafka, such as those of TLS and SASL; they win over those of ours.
    pub properties: Vec<(String, String)>,
}

impl Settings {
    /// What every client has in common. Reconnecting is quick, because a log without its leader stops all changes.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", &self.group)
            .set("socket.nagle.disable", "true")
            .set("socket.keepalive.enable", "true")
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "1000")
            .set("socket.connection.setup.timeout.ms", "5000")
            .set("topic.metadata.refresh.interval.ms", "30000")
            .set("topic.metadata.refresh.fast.interval.ms", "100")
            .set("allow.auto.create.topics", "false")
            .set("log.connection.close", "false");
        config
    }

    /// The same with `properties`, which come last.
    pub(crate) fn finish(&self, mut config: ClientConfig) -> ClientConfig {
        for (key, value) in &self.properties {
            config.set(key, value);
        }
        config
    }
}

//! Settings of the connection to Kafka.

use rdkafka::ClientConfig;

/// Topic and brokers, with further settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `host:port` of some brokers, separated by commas.
    pub brokers: String,
    /// Name of the topic.
    pub topic: String,
    /// Consumer group in which the writer is elected.
    pub group: String,
    /// Milliseconds without a heartbeat after which a writer loses the election. The brokers set a lower bound
    /// (`group.min.session.timeout.ms`, 6000 by default).
    pub session_timeout_ms: u32,
    /// Milliseconds for which an append is retried.
    pub append_timeout_ms: u32,
    /// Further settings of librdkafka, such as those of TLS and SASL; they override this crate's settings.
    pub properties: Vec<(String, String)>,
}

impl Settings {
    /// Returns the settings that all clients share. With these settings, clients reconnect quickly, because no change
    /// can be made while the log has no leader.
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

    /// Adds `properties`, which override earlier settings.
    pub(crate) fn finish(&self, mut config: ClientConfig) -> ClientConfig {
        for (key, value) in &self.properties {
            config.set(key, value);
        }
        config
    }
}

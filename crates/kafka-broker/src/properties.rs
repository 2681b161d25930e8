//! Configuration of the brokers.

use std::path::Path;

use crate::{Ports, Security};

/// Logging configuration: warnings, and the line that reports a completed start.
pub(crate) const LOGGING: &str = "\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = info
";

/// Returns the properties of the broker at `index`.
pub(crate) fn server(home: &Path, index: usize, all: &[Ports], security: Option<&Security>) -> String {
    let voter = |(number, ports): (usize, &Ports)| {
        format!("{}@127.0.0.1:{}", number + 1, ports.advertised_controller)
    };
    let voters: Vec<_> = all.iter().enumerate().map(voter).collect();
    let Some(ports) = all.get(index) else { return String::new() };
    let (count, in_sync) = (all.len(), all.len().saturating_sub(1).max(1));
    let (listeners, advertised, protocols, more) =
        security.map_or_else(Default::default, |security| security.listeners(ports));
    format!(
        "process.roles=broker,controller\n\
         node.id={id}\n\
         controller.quorum.voters={voters}\n\
         listeners=PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controller}{listeners}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{advertised_clients},\
         CONTROLLER://127.0.0.1:{advertised_controller}{advertised}\n\
         controller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=PLAINTEXT\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT{protocols}\n\
         log.dirs={data}\n\
         default.replication.factor={count}\n\
         min.insync.replicas={in_sync}\n\
         offsets.topic.replication.factor={count}\n\
         offsets.topic.num.partitions=1\n\
         transaction.state.log.replication.factor={count}\n\
         transaction.state.log.min.isr={in_sync}\n\
         unclean.leader.election.enable=false\n\
         auto.create.topics.enable=false\n\
         log.flush.interval.messages=1\n\
         broker.session.timeout.ms=1500\n\
         broker.heartbeat.interval.ms=300\n\
         controller.quorum.election.timeout.ms=500\n\
         controller.quorum.election.backoff.max.ms=300\n\
         controller.quorum.fetch.timeout.ms=1000\n\
         group.initial.rebalance.delay.ms=0\n\
         group.min.session.timeout.ms=1000\n\
         num.network.threads=2\n\
         num.io.threads=2\n\
         log.cleaner.dedupe.buffer.size=16777216\n{more}",
        id = index + 1,
        voters = voters.join(","),
        clients = ports.clients,
        controller = ports.controller,
        advertised_clients = ports.advertised_clients,
        advertised_controller = ports.advertised_controller,
        data = home.join("data").display(),
    )
}

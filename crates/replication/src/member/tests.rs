use super::*;
use crate::key::{ClusterKey, KeyRing};
use crate::message::{self, Generation};
use crate::operation::OperationId;

/// Nodes that read the same log.
struct Cluster {
    log: Vec<Vec<u8>>,
    members: Vec<Member>,
}

impl Cluster {
    fn new(nodes: u32) -> Cluster {
        let keys = KeyRing::new(1, ClusterKey::new(&[5; 32]));
        let generation = Generation { follows: [0; 16], position: 0 };
        let (message, tag) = message::encode_generation(&keys, 1, &[1; 16], &generation);
        let member = |node| {
            let (follower, _) = Follower::seed((keys.clone(), 1), [0; 16], [1; 16], &generation, 0, tag);
            Member::new(follower, NodeId(node), 1)
        };
        Cluster { log: vec![message], members: (0..nodes).map(member).collect() }
    }

    /// Returns a cluster with node 0 as the writer.
    fn with_writer() -> Cluster {
        let mut cluster = Cluster::new(2);
        let claim = cluster.members[0].claim().unwrap();
        assert_eq!(cluster.append(claim), None);
        assert_eq!(cluster.members[0].role(), Role::Leading { epoch: 1 });
        cluster
    }

    /// Appends a message, and lets all nodes read it. Returns the outcome for the batch of node 0.
    fn append(&mut self, message: Vec<u8>) -> Option<GroupOutcome> {
        let offset = self.log.len() as u64;
        self.log.push(message);
        let steps: Vec<_> =
            self.members.iter_mut().map(|member| member.step(offset, self.log.last().unwrap())).collect();
        assert!(steps.iter().all(|step| step.verdict == steps[0].verdict));
        steps[0].outcome
    }

    fn propose(&mut self, node: usize, sequence: u64) -> Vec<u8> {
        let mut group = GroupBuilder::new(1 << 20);
        let operation = OperationId { node: NodeId(node as u32), incarnation: 1, sequence };
        group.push(&operation, b"record");
        self.members[node].propose(group, false).unwrap()
    }

    fn role(&self) -> Role {
        self.members[0].role()
    }
}

#[test]
fn keeps_a_batch_until_its_group_is_read_back() {
    let mut cluster = Cluster::with_writer();
    for sequence in 1..3 {
        assert!(cluster.members[0].may_decide());
        let group = cluster.propose(0, sequence);
        assert!(!cluster.members[0].may_decide());
        let mut second = GroupBuilder::new(1 << 20);
        second.push(&OperationId { node: NodeId(0), incarnation: 1, sequence: 9 }, b"");
        assert_eq!(cluster.members[0].propose(second, false), Err(CannotPropose::NotNow));
        assert_eq!(cluster.append(group), Some(GroupOutcome::Accepted));
    }
    assert_eq!(cluster.members[0].propose(GroupBuilder::new(1 << 20), false), Err(CannotPropose::Empty));
    assert_eq!(cluster.members[0].claim(), Err(CannotClaim::Leading));
    assert_eq!(cluster.members[1].propose(GroupBuilder::new(1 << 20), false), Err(CannotPropose::NotNow));
}

#[test]
fn another_claim_before_the_group_drops_the_batch() {
    let mut cluster = Cluster::with_writer();
    let group = cluster.propose(0, 1);
    let claim = cluster.members[1].claim().unwrap();
    assert_eq!(cluster.append(claim), Some(GroupOutcome::Dropped));
    assert_eq!((cluster.role(), cluster.members[1].role()), (Role::Following, Role::Leading { epoch: 2 }));
    assert_eq!(cluster.append(group), None);
    assert_eq!(cluster.members[0].follower().position(), 0);
}

#[test]
fn a_claim_determines_the_outcome_of_a_group() {
    // The group reaches the log before the claim, or after it.
    for lands in [true, false] {
        let mut cluster = Cluster::with_writer();
        let group = cluster.propose(0, 1);
        assert_eq!(cluster.members[0].group_failed(AppendError::Unknown), None);
        assert_eq!(cluster.role(), Role::Doubtful { epoch: 1 });
        assert!(!cluster.members[0].may_decide());
        let claim = cluster.members[0].claim().unwrap();
        if lands {
            assert_eq!(cluster.append(group), Some(GroupOutcome::Accepted));
            assert_eq!(cluster.append(claim), None);
        } else {
            assert_eq!(cluster.append(claim), Some(GroupOutcome::Dropped));
            assert_eq!(cluster.append(group), None);
        }
        assert!(matches!(cluster.role(), Role::Leading { .. }));
        assert_eq!(cluster.members[1].follower().position(), u64::from(lands));
        let group = cluster.propose(0, 2);
        assert_eq!(cluster.append(group), Some(GroupOutcome::Accepted));
    }
}

#[test]
fn a_group_with_unknown_outcome_is_accepted_before_a_claim() {
    let mut cluster = Cluster::with_writer();
    let group = cluster.propose(0, 1);
    cluster.members[0].group_failed(AppendError::Unknown);
    assert_eq!(cluster.append(group), Some(GroupOutcome::Accepted));
    // In both cases the epoch has ended for this node.
    assert_eq!(cluster.role(), Role::Following);
}

#[test]
fn a_group_that_was_not_appended_is_dropped_and_the_epoch_continues() {
    let mut cluster = Cluster::with_writer();
    cluster.propose(0, 1);
    assert_eq!(cluster.members[0].group_failed(AppendError::NotAppended), Some(GroupOutcome::Dropped));
    let group = cluster.propose(0, 1);
    assert_eq!(cluster.append(group), Some(GroupOutcome::Accepted));
    assert_eq!(cluster.members[0].group_failed(AppendError::Unknown), None);
    assert_eq!(cluster.role(), Role::Leading { epoch: 1 });
}

#[test]
fn only_the_latest_claim_determines_the_writer() {
    let mut cluster = Cluster::new(2);
    let first = cluster.members[0].claim().unwrap();
    let second = cluster.members[0].claim().unwrap();
    let other = cluster.members[1].claim().unwrap();
    cluster.append(first);
    assert_eq!(cluster.role(), Role::Claiming { attempt: 2 });
    cluster.append(other);
    assert_eq!(
        (cluster.role(), cluster.members[1].role()),
        (Role::Claiming { attempt: 2 }, Role::Leading { epoch: 2 })
    );
    cluster.append(second);
    assert_eq!((cluster.role(), cluster.members[1].role()), (Role::Leading { epoch: 3 }, Role::Following));
}

#[test]
fn a_resigned_writer_keeps_its_batch_until_the_outcome_is_known() {
    for lands in [true, false] {
        let mut cluster = Cluster::with_writer();
        let group = cluster.propose(0, 1);
        cluster.members[0].resign();
        assert_eq!((cluster.role(), cluster.members[0].holds_batch()), (Role::Doubtful { epoch: 1 }, true));
        let claim = cluster.members[1].claim().unwrap();
        let expected = if lands {
            assert_eq!(cluster.append(group), Some(GroupOutcome::Accepted));
            None
        } else {
            Some(GroupOutcome::Dropped)
        };
        assert_eq!(cluster.append(claim), expected);
        assert_eq!((cluster.role(), cluster.members[0].holds_batch()), (Role::Following, false));
    }
    let mut cluster = Cluster::with_writer();
    cluster.members[0].resign();
    assert_eq!(cluster.role(), Role::Following);
}

#[test]
fn drops_an_own_group_that_is_not_accepted() {
    let mut cluster = Cluster::with_writer();
    let group = cluster.propose(0, 1);
    assert_eq!(cluster.append(group), Some(GroupOutcome::Accepted));
    // The caller wrongly proposes the same operation again.
    let group = cluster.propose(0, 1);
    assert_eq!(cluster.append(group), Some(GroupOutcome::Dropped));
    assert_eq!(cluster.role(), Role::Following);
}

#[test]
fn a_stopped_node_does_not_know_the_outcome() {
    let mut cluster = Cluster::with_writer();
    cluster.propose(0, 1);
    let mut group = GroupBuilder::new(1 << 20);
    group.push(&OperationId { node: NodeId(0), incarnation: 1, sequence: 1 }, b"");
    let (count, records) = group.into_parts();
    let (message, _) = cluster.members[0].follower.group_of(7, count, None, &records).unwrap();
    assert_eq!(cluster.append(message), Some(GroupOutcome::Unknown));
    assert_eq!(cluster.role(), Role::Following);
    assert!(matches!(cluster.members[0].claim(), Err(CannotClaim::Stopped(Alarm::UnknownEpoch(7)))));
}

#[test]
fn an_acknowledged_offset_with_another_message_stops_the_node() {
    let tag = |message: &[u8]| Tag::of_message(message).unwrap();
    // An acknowledgement may come late, or for a message that is in the log twice. The node has read the message at the
    // acknowledged offset.
    let mut cluster = Cluster::with_writer();
    let group = cluster.propose(0, 1);
    assert_eq!(cluster.append(group.clone()), Some(GroupOutcome::Accepted));
    assert_eq!(cluster.append(group.clone()), None);
    for offset in [2, 3, 9] {
        assert_eq!(cluster.members[0].acknowledged(tag(&group), offset), Ok(()), "{offset}");
    }
    // At the acknowledged offset, the node has read another message.
    for (offset, message) in [(1, group), (3, cluster.propose(0, 2))] {
        let mut member = cluster.members[0].clone();
        let alarm = member.acknowledged(tag(&message), offset).unwrap_err();
        assert_eq!(alarm, Alarm::WentBack { offset, expected: 4 });
        assert!(alarm.stops() && !member.holds_batch());
        assert_eq!(member.claim(), Err(CannotClaim::Stopped(alarm)));
        let next = cluster.log.len() as u64;
        assert_eq!(member.step(next, &cluster.log[1]).verdict, Verdict::Alarm(alarm));
    }
}

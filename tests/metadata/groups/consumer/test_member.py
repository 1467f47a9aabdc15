"""Members and their records."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.groups.consumer.member import ClassicMember, ConsumerMember, MemberState
from stratalog.wire.records.group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    CurrentTopicPartitions,
    decode_value,
    encode_value,
)

A = b"a" * 16
held = st.dictionaries(
    st.binary(min_size=16, max_size=16), st.dictionaries(st.integers(0, 99), st.integers(0, 9), min_size=1), max_size=3
)
members = st.builds(
    ConsumerMember,
    member_id=st.just("m"),
    instance_id=st.none() | st.text(max_size=3),
    rack_id=st.none() | st.text(max_size=3),
    client_id=st.text(max_size=3),
    client_host=st.text(max_size=3),
    topic_names=st.frozensets(st.text(max_size=3), max_size=3),
    topic_pattern=st.text(max_size=3),
    rebalance_timeout_ms=st.integers(-1, 1000),
    assignor=st.none() | st.sampled_from(["range", "uniform"]),
    classic=st.none()
    | st.builds(
        ClassicMember,
        session_timeout_ms=st.integers(1, 1000),
        protocols=st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=2).map(tuple),
    ),
    epoch=st.integers(-2, 99),
    previous_epoch=st.integers(-2, 99),
    state=st.sampled_from(MemberState),
    assigned=held,
    revoking=held,
)


@given(member=members)
def test_a_member_survives_writing_and_reading_its_records(member):
    """A member is the same after its two records were written and read."""
    said = decode_value(
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), encode_value(member.metadata_value())
    )
    has = decode_value(
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), encode_value(member.assignment_value())
    )
    assert ConsumerMember("m").with_metadata(said).with_assignment(has) == member


def test_partitions_without_epochs():
    """Records of Kafka before 4.3 have no epochs: the member's own is taken."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=7,
        previous_member_epoch=6,
        state=9,
        assigned_partitions=[CurrentTopicPartitions(topic_id=A, partitions=[1, 2])],
        partitions_pending_revocation=[],
    )
    member = ConsumerMember("m").with_assignment(value)
    assert member.assigned == {A: {1: 7, 2: 7}}
    assert member.state is MemberState.UNKNOWN


def test_a_partition_has_the_epoch_in_which_the_member_got_it():
    """The epoch of a partition that the member has, or is giving up."""
    member = ConsumerMember("m", assigned={A: {0: 3}}, revoking={A: {1: 2}})
    assert [member.given_in(A, partition) for partition in range(3)] == [3, 2, None]
    assert member.given_in(b"b" * 16, 0) is None


def test_a_static_member_that_is_away_keeps_its_partitions():
    """A static member that restarts keeps its partitions, from before any epoch, and gives nothing up any more."""
    away = ConsumerMember("m", epoch=4, assigned={A: {0: 3}}, revoking={A: {1: 2}}).away()
    assert (away.epoch, away.assigned, away.revoking) == (-2, {A: {0: 0}}, {})
    back = away.succeeded_by("n")
    assert (back.member_id, back.epoch, back.previous_epoch, back.assigned) == ("n", 0, 0, {A: {0: 0}})

"""Committed offsets: every answer of Kafka's, and every record."""

import pytest

from stratalog.metadata.coordination import Now, Producer, Reply, Write
from stratalog.metadata.groups.group import GroupRequest, GroupSettings
from stratalog.metadata.groups.offsets.committed_offsets import CommittedOffsets
from stratalog.metadata.groups.offsets.records import (
    NEVER,
    CommittedOffset,
    offset_key,
    read_offset,
)
from stratalog.metadata.groups.offsets.requests import FetchOffsets, TransactionEnded, WantedTopic
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from stratalog.wire.topic import ZERO_UUID

NOW = Now(5, 1_000_000)
ID = b"t" * 16
PRODUCER = Producer(9, 2)


class GroupLike:
    """A group whose answers are given."""

    def __init__(self, **changes):
        values = {
            "refusal": None,
            "check": None,
            **changes,
        }
        self.__dict__.update(values)
        self.asked = []

    def check_offset_commit(self, member_id, instance_id, epoch, *, transactional, api_version):
        self.asked.append((member_id, instance_id, epoch, transactional, api_version))
        if self.refusal:
            raise KafkaError(self.refusal)
        return self.check

    def offset_committed(self, member_id, now):
        self.asked.append((member_id, now))

    def check_offset_fetch(self, member_id, member_epoch):
        self.asked.append((member_id, member_epoch))
        if self.refusal:
            raise KafkaError(self.refusal)


def asked(request, version=9):
    return GroupRequest(token="token", group_id="g", api_version=version, request=request)


def commit_request(offset=7, text=None, epoch=-1, retention=-1, partition=0, **more):
    one = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_leader_epoch=4, committed_metadata=text
    )
    topics = [OffsetCommitRequestTopic(name="t", topic_id=ID, partitions=[one])]
    return OffsetCommitRequest(
        **{
            "group_id": "g",
            "generation_id_or_member_epoch": epoch,
            "member_id": "",
            "retention_time_ms": retention,
            "topics": topics,
            **more,
        }
    )


def transaction_request(offset=7, text=None, epoch=-1, partition=0):
    one = TxnOffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_leader_epoch=4, committed_metadata=text
    )
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=PRODUCER.producer_id,
        producer_epoch=PRODUCER.producer_epoch,
        generation_id=epoch,
        member_id="m",
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[one])],
    )


@pytest.fixture
def offsets():
    return CommittedOffsets(GroupSettings(offset_metadata_max_bytes=20))


def committed(offsets, *args, group=None, **kwargs):
    (action,) = offsets.commit(group, asked(commit_request(*args, **kwargs)), NOW)
    return action


def pend(offsets, *args, group=None, **kwargs):
    (action,) = offsets.commit_in_transaction(group, asked(transaction_request(*args, **kwargs)), NOW)
    return action


FIRST = (WantedTopic("t", (0,)),)


def fetched(offsets, topics=FIRST, *, group=None, stable=False, **more):
    request = FetchOffsets(group_id="g", topics=topics, require_stable=stable, **more)
    (reply,) = offsets.fetch(group, asked(request))
    assert reply.durable
    (answer,) = reply.response.groups
    assert answer.group_id == "g"
    return {
        (topic.name, one.partition_index): (one.committed_offset, one.metadata, ErrorCode(one.error_code).name)
        for topic in answer.topics
        for one in topic.partitions
    }


def code_of(action):
    assert type(action) is Reply
    return action.response.code


def codes_of(action):
    assert type(action) is Write
    (reply,) = action.replies
    return [ErrorCode(one.error_code).name for topic in reply.response.topics for one in topic.partitions]


# -- commit -----------------------------------------------------------------------------------------------------------


def test_a_commit_is_one_record_and_its_answer_waits_for_it(offsets):
    """A commit is one record with offset, leader epoch, text, time and topic id; its answer waits for it."""
    action = committed(offsets, 7, "note")
    assert codes_of(action) == ["NONE"]
    ((key, value),) = action.records
    assert key == offset_key("g", "t", 0)
    assert read_offset(value) == CommittedOffset(7, 4, "note", NOW.wall_ms, NEVER, ID)
    assert action.producer is None
    assert action.replies[0].response.topics[0].topic_id == ID
    assert offsets.has_offsets("g")
    assert list(offsets.of("g")) == [("t", 0, read_offset(value))]


def test_commit_own_retention(offsets):
    """Clients of old choose how long it is kept: that is the only thing that version 1 of the record is written for."""
    ((_, value),) = committed(offsets, retention=500).records
    assert value[:2] == b"\0\1"
    assert read_offset(value).expire_timestamp == NOW.wall_ms + 500


@pytest.mark.parametrize(
    ("text", "code"),
    [("x" * 20, "NONE"), ("x" * 21, "OFFSET_METADATA_TOO_LARGE"), ("ß" * 20, "NONE"), ("😀" * 10, "NONE"),
     ("😀" * 11, "OFFSET_METADATA_TOO_LARGE")],
)  # fmt: skip
def test_commit_text_size(offsets, text, code):
    """The text has a limit, counted as Java counts; a partition that breaks it leaves the others alone."""
    request = commit_request(1, text)
    request.topics[0].partitions.append(commit_request(2, partition=1).topics[0].partitions[0])
    (action,) = offsets.commit(None, asked(request), NOW)
    assert codes_of(action) == [code, "NONE"]
    assert len(action.records) == (2 if code == "NONE" else 1)
    assert codes_of(pend(offsets, 1, text)) == [code]


def test_commit_retention_for_ever(offsets):
    """The longest retention that a client can ask for ends when time does, as far as a record can say it."""
    (write,) = offsets.commit(None, asked(commit_request(retention=2**63 - 1), 4), NOW)
    assert read_offset(write.records[0].value).expire_timestamp == 2**63 - 1


def test_commit_text_of_any_size():
    """A text of 32,768 characters is refused under a limit of 1 GiB, because a record holds no more than 32,767."""
    offsets = CommittedOffsets(GroupSettings(offset_metadata_max_bytes=1 << 30))
    assert codes_of(committed(offsets, 1, "x" * 32_767, retention=5)) == ["NONE"]
    assert codes_of(committed(offsets, 1, "x" * 32_768, retention=5)) == ["OFFSET_METADATA_TOO_LARGE"]


def test_commit_without_group(offsets):
    """A claimed membership of a missing group is refused, in the words of the request's version."""
    (action,) = offsets.commit(None, asked(commit_request(epoch=0), 9), NOW)
    assert code_of(action) == ErrorCode.GROUP_ID_NOT_FOUND
    (action,) = offsets.commit(None, asked(commit_request(epoch=0), 8), NOW)
    assert code_of(action) == ErrorCode.ILLEGAL_GENERATION
    assert not offsets.has_offsets("g")


def test_commit_of_member(offsets):
    """The group decides whether the member may commit, and takes it for a sign of life."""
    group = GroupLike()
    committed(offsets, group=group, epoch=3, member_id="m", group_instance_id="i")
    assert group.asked == [("m", "i", 3, False, 9), ("m", NOW)]
    refusing = GroupLike(refusal=ErrorCode.ILLEGAL_GENERATION)
    action = committed(offsets, 99, group=refusing, epoch=3)
    assert code_of(action) == ErrorCode.ILLEGAL_GENERATION
    assert len(refusing.asked) == 1
    assert fetched(offsets)["t", 0][0] == 7


def test_commit_partition_check(offsets):
    """A group may refuse a commit for one of its partitions; then nothing of it is written."""

    def check(topic, topic_id, partition):
        assert (topic, topic_id) == ("t", ID)
        if partition == 1:
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    group = GroupLike(check=check)
    request = commit_request()
    request.topics[0].partitions.append(commit_request(partition=1).topics[0].partitions[0])
    (action,) = offsets.commit(group, asked(request), NOW)
    assert code_of(action) == ErrorCode.STALE_MEMBER_EPOCH
    assert not offsets.has_offsets("g")


# -- transactions -----------------------------------------------------------------------------------------------------


def test_an_offset_of_a_transaction_shows_after_its_commit(offsets):
    """The record is part of the producer's transaction; the offset shows when it has committed."""
    action = pend(offsets, 7, "note")
    assert action.producer == PRODUCER
    assert codes_of(action) == ["NONE"]
    ((key, value),) = action.records
    assert key == offset_key("g", "t", 0)
    assert read_offset(value) == CommittedOffset(7, 4, "note", NOW.wall_ms, NEVER, ZERO_UUID)
    assert offsets.has_pending("g")
    assert not offsets.has_offsets("g")
    assert fetched(offsets) == {("t", 0): (-1, "", "NONE")}
    assert fetched(offsets, stable=True) == {("t", 0): (-1, "", "UNSTABLE_OFFSET_COMMIT")}
    offsets.transaction_ended(TransactionEnded(PRODUCER, commit=True))
    assert fetched(offsets, stable=True) == {("t", 0): (7, "note", "NONE")}
    assert not offsets.has_pending("g")


def test_an_aborted_transaction_leaves_the_offset_before(offsets):
    """An aborted transaction leaves the offset that was there."""
    committed(offsets, 3)
    pend(offsets, 7)
    assert fetched(offsets) == {("t", 0): (3, "", "NONE")}
    assert fetched(offsets, None, stable=True) == {("t", 0): (-1, "", "UNSTABLE_OFFSET_COMMIT")}
    offsets.transaction_ended(TransactionEnded(PRODUCER, commit=False))
    assert fetched(offsets, stable=True) == {("t", 0): (3, "", "NONE")}


def test_a_later_commit_outside_of_the_transaction_stays(offsets):
    """A commit outside of the transaction that came after it stays; one that came before is replaced."""
    pend(offsets, 7)
    committed(offsets, 5)
    assert fetched(offsets, stable=True)["t", 0][2] == "UNSTABLE_OFFSET_COMMIT"
    offsets.transaction_ended(TransactionEnded(PRODUCER, commit=True))
    assert fetched(offsets)["t", 0][0] == 5
    pend(offsets, 8)
    offsets.transaction_ended(TransactionEnded(PRODUCER, commit=True))
    assert fetched(offsets)["t", 0][0] == 8


def test_the_later_record_of_two_transactions_stays(offsets):
    """The later record of two transactions stays, in whichever order they end."""
    for key, value in (pend(offsets, 1).records[0], pend(offsets, 2).records[0]):
        offsets.replay(key, value, Producer(value[9], 0))
    offsets.replay_marker(PRODUCER, commit=False)
    offsets.replay_marker(Producer(2, 0), commit=True)
    offsets.replay_marker(Producer(1, 0), commit=True)
    assert fetched(offsets)["t", 0][0] == 2


def test_commit_too_large(offsets):
    """A key repeats the group's id: what fits a small request may be more than an append can take."""
    for request, commit in (
        (commit_request(), offsets.commit),
        (transaction_request(), offsets.commit_in_transaction),
    ):
        request.topics[0].partitions *= 3_000
        event = GroupRequest(token="token", group_id="g" * 30_000, api_version=9, request=request)
        (action,) = commit(None, event, NOW)
        assert code_of(action) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert not offsets.has_offsets("g" * 30_000)
    assert not offsets.has_pending("g" * 30_000)


def test_a_commit_is_counted_by_the_bytes_of_its_texts(offsets):
    """A character may have four, and a turn of the loop writes 8 MiB at most."""
    for character, code in (("g", 0), ("\U0001f600", ErrorCode.INVALID_COMMIT_OFFSET_SIZE)):
        request = commit_request()
        request.topics[0].partitions *= 500
        event = GroupRequest(token="token", group_id=character * 8_000, api_version=9, request=request)
        (action,) = offsets.commit(None, event, NOW)
        assert (code_of(action) if code else type(action)) == (code or Write)


def test_a_transaction_in_a_wrong_epoch_is_illegal_generation(offsets):
    """Producers know ILLEGAL_GENERATION, not the epochs of KIP-848."""
    (action,) = offsets.commit_in_transaction(None, asked(transaction_request(epoch=0)), NOW)
    assert code_of(action) == ErrorCode.ILLEGAL_GENERATION
    stale = GroupLike(refusal=ErrorCode.STALE_MEMBER_EPOCH)
    assert code_of(pend(offsets, group=stale, epoch=3)) == ErrorCode.ILLEGAL_GENERATION
    assert stale.asked == [("m", None, 3, True, 9)]
    fenced = GroupLike(refusal=ErrorCode.FENCED_INSTANCE_ID)
    assert code_of(pend(offsets, group=fenced)) == ErrorCode.FENCED_INSTANCE_ID

    def check(*_):
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    assert code_of(pend(offsets, group=GroupLike(check=check))) == ErrorCode.ILLEGAL_GENERATION
    assert codes_of(pend(offsets, group=GroupLike(check=lambda *_: None))) == ["NONE"]
    assert offsets.has_pending("g")


# -- fetch ------------------------------------------------------------------------------------------------------------


def test_a_missing_offset_is_answered_minus_1(offsets):
    """A missing offset is -1 with an empty text, also of a missing group; all of nothing is nothing."""
    assert fetched(offsets) == {("t", 0): (-1, "", "NONE")}
    assert fetched(offsets, None) == {}
    committed(offsets)
    assert fetched(offsets, [WantedTopic("u", (0,)), WantedTopic("t", (1,))]) == {
        ("u", 0): (-1, "", "NONE"),
        ("t", 1): (-1, "", "NONE"),
    }


def test_null_topics_fetch_every_committed_offset(offsets):
    """Null topics are everything committed, leader epochs with it; what is only pending is not listed."""
    committed(offsets, 1)
    committed(offsets, 2, "b", partition=3)
    pend(offsets, partition=5)
    assert fetched(offsets, None) == {("t", 0): (1, "", "NONE"), ("t", 3): (2, "b", "NONE")}
    request = FetchOffsets(group_id="g", topics=None)
    (reply,) = offsets.fetch(None, asked(request))
    assert [one.committed_leader_epoch for one in reply.response.groups[0].topics[0].partitions] == [4, 4]


def test_fetch_topic_id(offsets):
    """An offset of an earlier topic of that name is not one of this topic; without an id the name is enough."""
    committed(offsets)
    assert fetched(offsets, [WantedTopic("t", (0,), b"u" * 16)])["t", 0][0] == -1
    assert fetched(offsets, [WantedTopic("t", (0,), ID)])["t", 0][0] == 7


def test_fetch_of_member(offsets):
    """The group decides whether a member of that epoch may ask."""
    group = GroupLike()
    fetched(offsets, group=group, member_id="m", member_epoch=3)
    assert group.asked == [("m", 3)]
    request = FetchOffsets(group_id="g", topics=None)
    (action,) = offsets.fetch(GroupLike(refusal=ErrorCode.STALE_MEMBER_EPOCH), asked(request))
    assert code_of(action) == ErrorCode.STALE_MEMBER_EPOCH

"""Offsets of a topic that was deleted while they were being loaded, and of the next one of its name."""

from types import SimpleNamespace

import pytest

from stratalog.metadata.groups.offsets.requests import FetchOffsets, TransactionEnded, WantedTopic
from stratalog.wire.topic import ZERO_UUID
from tests.metadata.groups.offsets.test_committed_offsets import (
    ID,
    NOW,
    PRODUCER,
    asked,
    commit_request,
    offsets,
    transaction_request,
)

__all__ = ["offsets"]

NEXT_ID = b"n" * 16
FIRST = (WantedTopic("t", (0,)),)


def image(topic_id):
    """One in which ``t`` has this id, or is not there."""
    named = {} if topic_id is None else {"t": SimpleNamespace(topic_id=topic_id)}
    return SimpleNamespace(topics=SimpleNamespace(by_name=named))


def found(offsets, topic_id, wanted=FIRST):
    """The committed offset of t-0 while ``t`` has this id."""
    (reply,) = offsets.fetch(None, asked(FetchOffsets(group_id="g", topics=wanted)), image(topic_id))
    (topic,) = reply.response.groups[0].topics
    return topic.partitions[0].committed_offset


@pytest.mark.parametrize("wanted", [FIRST, None])
def test_offsets_do_not_count_for_the_next_topic_of_a_name(offsets, wanted):
    """Also where the client gives no id. Until there is a next one they are answered."""
    offsets.commit(None, asked(commit_request(7)), NOW)
    assert [found(offsets, one, wanted) for one in (ID, None, NEXT_ID)] == [7, 7, -1]


def test_offsets_of_transactions_do_not_count_for_it_either(offsets):
    """They keep the id of the topic that there was when they came."""
    offsets.commit_in_transaction(None, asked(transaction_request(7)), NOW, image(ID))
    offsets.transaction_ended(TransactionEnded(PRODUCER, commit=True))
    assert [found(offsets, one) for one in (ID, NEXT_ID)] == [7, -1]


def test_offsets_without_an_id_count_for_any_topic(offsets):
    """Records that older brokers wrote have none."""
    offsets.commit_in_transaction(None, asked(transaction_request(7)), NOW)
    offsets.transaction_ended(TransactionEnded(PRODUCER, commit=True))
    assert found(offsets, NEXT_ID) == 7
    assert found(offsets, ZERO_UUID) == 7


def test_offsets_of_transactions_in_the_next_topic_outlive_the_deletion_of_old_ones(offsets):
    """It goes on beside them: a tombstone would take what the transaction has brought."""
    offsets.commit(None, asked(commit_request(7)), NOW)
    assert offsets.topics_deleted({"t": ID}) == []
    offsets.commit_in_transaction(None, asked(transaction_request(3)), NOW, image(NEXT_ID))
    while offsets.deletion_under_way:
        assert offsets.delete_of_topics() == []
    offsets.transaction_ended(TransactionEnded(PRODUCER, commit=True))
    assert found(offsets, NEXT_ID) == 3


def test_offsets_that_a_transaction_has_brought_in_vain_keep_no_old_one(offsets):
    """A later commit has overtaken them: nothing of the transaction becomes visible there."""
    offsets.commit_in_transaction(None, asked(transaction_request(3)), NOW, image(ID))
    offsets.commit(None, asked(commit_request(7)), NOW)
    assert offsets.topics_deleted({"t": ID}) == []
    assert len(offsets.delete_of_topics()) == 1
    assert found(offsets, None) == -1


def test_offsets_without_an_id_are_gone_with_their_topic(offsets):
    """At once, although they go in parts: nothing else tells them from those of the next topic."""
    offsets.commit_in_transaction(None, asked(transaction_request(7)), NOW)
    offsets.transaction_ended(TransactionEnded(PRODUCER, commit=True))
    assert offsets.topics_deleted({"t": ID}) == []
    assert found(offsets, NEXT_ID) == -1
    request = commit_request(3)
    request.topics[0].topic_id = NEXT_ID
    offsets.commit(None, asked(request), NOW)
    assert offsets.deletion_under_way
    assert found(offsets, NEXT_ID) == 3

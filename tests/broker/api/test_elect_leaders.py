"""ElectLeaders: one broker leads everything already."""

import pytest

from stratalog.broker.api.elect_leaders import API
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PREFERRED, UNCLEAN = 0, 1


def ask(broker, kind, *topics, version=2):
    """Codes by topic and partition, and the code of the whole."""
    named = [TopicPartitions(topic=name, partitions=list(partitions)) for name, partitions in topics] or None
    answer = broker.link().call(ElectLeadersRequest(election_type=kind, topic_partitions=named), version)
    found = {
        (each.topic, one.partition_id): ErrorCode(one.error_code)
        for each in answer.replica_election_results
        for one in each.partition_result
    }
    return found, ErrorCode(answer.error_code)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_no_election_is_needed(broker, version, kind):
    """Said of each partition that was named; what does not exist is said, too."""
    broker.create("t", 2)
    found, code = ask(broker, kind, ("t", [0, 1, 7]), ("absent", [0]), version=version)
    assert code is ErrorCode.NONE
    assert found == {
        ("t", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("t", 1): ErrorCode.ELECTION_NOT_NEEDED,
        ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("absent", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_all_partitions_answer_only_those_that_changed(broker):
    """There are none."""
    broker.create("t", 2)
    assert ask(broker, PREFERRED) == ({}, ErrorCode.NONE)


def test_an_unknown_kind_of_election_is_invalid(broker):
    """Version 0 has no kind: its elections are of preferred leaders."""
    broker.create("t")
    assert ask(broker, 9, ("t", [0]))[1] is ErrorCode.INVALID_REQUEST
    assert ask(broker, 9, ("t", [0]), version=0) == ({("t", 0): ErrorCode.ELECTION_NOT_NEEDED}, ErrorCode.NONE)


def test_a_failure_as_a_whole_is_answered_for_each_partition():
    """Version 0 has no other place for it."""
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[3])])
    answer = API.failure(request, 0, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "why"))
    ((result,),) = [each.partition_result for each in answer.replica_election_results]
    assert (answer.error_code, result.partition_id, result.error_code, result.error_message) == (-1, 3, -1, "why")

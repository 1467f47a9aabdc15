"""Rules of access: what may be added, what is found and removed."""

import pytest

from stratalog.metadata.acls import AclFilter, AclRule, PatternType, Permission
from stratalog.metadata.controller_acls import create_acls, delete_acls, describe_acls
from stratalog.metadata.decision import Failure
from stratalog.metadata.image import EMPTY_IMAGE
from stratalog.wire.errors import ErrorCode, KafkaError

TOPIC, CLUSTER = 2, 4
ANY, READ, WRITE = 1, 3, 4
GOOD = AclRule(TOPIC, "t", PatternType.LITERAL, "User:a", "*", READ, Permission.ALLOW)
EVERYTHING = AclFilter(ANY, None, PatternType.ANY, None, None, ANY, ANY)


@pytest.fixture
def create(topic_ids):
    """The image with more rules, and the code of each."""

    def create(image, *rules):
        decision = create_acls(image, rules, topic_ids)
        return image.apply(decision.records), [None if one is None else one.code for one in decision.result]

    return create


def test_a_rule_is_there_once(create):
    """However often it is added."""
    image, codes = create(EMPTY_IMAGE, GOOD, GOOD)
    assert codes == [None, None]
    image, _ = create(image, GOOD)
    assert list(image.acls.by_id.values()) == [GOOD]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"resource_type": 1}, "Invalid resourceType 1"),
        ({"resource_type": 99}, "Invalid resourceType 99"),
        ({"pattern_type": PatternType.MATCH}, "Invalid patternType 2"),
        ({"operation": 1}, "Invalid operation 1"),
        ({"permission": 1}, "Invalid permissionType 1"),
        ({"resource_name": ""}, "Resource name should not be empty"),
        ({"resource_type": CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"principal": "alice"}, "Could not parse principal from `alice`"),
    ],
)
def test_what_is_no_rule_is_refused(create, topic_ids, values, sentence):
    """With Kafka's words; the others of the request are added."""
    bad = GOOD._replace(**values)
    (failure, none) = create_acls(EMPTY_IMAGE, [bad, GOOD], topic_ids).result
    assert failure.code is ErrorCode.INVALID_REQUEST
    assert failure.message.startswith(sentence)
    assert none is None
    image, _ = create(EMPTY_IMAGE, bad, GOOD)
    assert list(image.acls.by_id.values()) == [GOOD]


def test_filters_remove_what_they_find(create):
    """Each is told of its own; what two of them find goes once."""
    other = GOOD._replace(operation=WRITE)
    image, _ = create(EMPTY_IMAGE, GOOD, other, GOOD._replace(resource_name="u"))
    decision = delete_acls(image, [EVERYTHING._replace(resource_name="t"), EVERYTHING._replace(operation=READ)])
    first, second = decision.result
    assert first == (GOOD, other)
    assert [one.resource_name for one in second] == ["t", "u"]
    assert image.apply(decision.records).acls.by_id == {}


def test_what_remains_is_described_by_resource(create):
    """The rules of one resource together."""
    other = GOOD._replace(principal="User:b")
    prefixed = GOOD._replace(pattern_type=PatternType.PREFIXED)
    image, _ = create(EMPTY_IMAGE, GOOD, prefixed, other)
    assert describe_acls(image, EVERYTHING) == {
        (TOPIC, "t", PatternType.LITERAL): [GOOD, other],
        (TOPIC, "t", PatternType.PREFIXED): [prefixed],
    }
    assert describe_acls(image, EVERYTHING._replace(principal="User:c")) == {}


@pytest.mark.parametrize("values", [{"resource_type": 0}, {"pattern_type": 9}, {"operation": 0}, {"permission": 0}])
def test_a_filter_of_unknown_numbers_is_invalid(values):
    """Whether something is looked for or removed."""
    wanted = EVERYTHING._replace(**values)
    with pytest.raises(KafkaError) as caught:
        describe_acls(EMPTY_IMAGE, wanted)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    (failure,) = delete_acls(EMPTY_IMAGE, [wanted]).result
    assert isinstance(failure, Failure)

"""Rules of access: what may be added, what is found and removed."""

import pytest

from stratalog.metadata.access.acl_rules import AclFilter, AclRule, PatternType, Permission
from stratalog.metadata.controller.acls import check_filter, create_acls, remove_acls
from stratalog.metadata.image.image import EMPTY_IMAGE
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
    """Adding a rule again, in one request or in a later one, succeeds and changes nothing."""
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
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"principal": "alice"}, "Could not parse principal from `alice`"),
    ],
)
def test_an_invalid_rule_is_refused(create, topic_ids, values, sentence):
    """With Kafka's words; the others of the request are added."""
    bad = GOOD._replace(**values)
    (failure, none) = create_acls(EMPTY_IMAGE, [bad, GOOD], topic_ids).result
    assert failure.code is ErrorCode.INVALID_REQUEST
    assert failure.message.startswith(sentence)
    assert none is None
    image, _ = create(EMPTY_IMAGE, bad, GOOD)
    assert list(image.acls.by_id.values()) == [GOOD]


def test_rules_are_removed_once(create):
    """Those that are gone already are passed over: another request was faster."""
    image, _ = create(EMPTY_IMAGE, GOOD, GOOD._replace(resource_name="u"))
    ids = [rule_id for rule_id, rule in image.acls.by_id.items() if rule == GOOD]
    image = image.apply(remove_acls(image, ids).records)
    assert [rule.resource_name for rule in image.acls.by_id.values()] == ["u"]
    assert remove_acls(image, ids).records == ()


@pytest.mark.parametrize("values", [{"resource_type": 0}, {"pattern_type": 9}, {"operation": 0}, {"permission": 0}])
def test_a_filter_of_unknown_numbers_is_invalid(values):
    """Whether something is looked for or removed."""
    check_filter(EVERYTHING)
    with pytest.raises(KafkaError) as caught:
        check_filter(EVERYTHING._replace(**values))
    assert caught.value.code is ErrorCode.INVALID_REQUEST

"""Rules of access: what they say, how they are found, what they come to."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.metadata.acls import AclFilter, AclRule, PatternType, Permission, is_allowed
from stratalog.metadata.image import EMPTY_IMAGE
from stratalog.metadata.snapshot import SnapshotId, build_snapshot, read_snapshot
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import AccessControlEntryRecord, RemoveAccessControlEntryRecord

LITERAL, PREFIXED, MATCH, ANY_PATTERN = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY
ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, GROUP = 2, 3
ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 1, 2, 3, 4, 5, 6, 7, 8, 10, 11
ALICE, BOB, HERE, THERE = "User:alice", "User:bob", "10.0.0.1", "10.0.0.2"


def rule(name="t", *, pattern=LITERAL, principal=ALICE, host="*", operation=READ, permission=ALLOW, kind=TOPIC):
    return AclRule(kind, name, pattern, principal, host, operation, permission)


def may(rules, operation=READ, name="t", principal=ALICE, host=HERE, otherwise=False):
    return is_allowed(rules, principal, host, operation, name, otherwise=otherwise)


def test_a_permission_is_for_one_principal_host_and_operation():
    """Nobody else, from nowhere else, to nothing else."""
    rules = [rule(host=HERE)]
    assert may(rules)
    assert not may(rules, principal=BOB)
    assert not may(rules, host=THERE)
    assert not may(rules, operation=WRITE)
    assert not may(rules, name="u")


def test_stars_stand_for_everything():
    """Any principal of the kind, any host, any name, any operation."""
    rules = [rule("*", principal="User:*", operation=ALL)]
    for operation in range(3, 16):
        assert may(rules, operation, name="anything", principal=BOB, host=THERE)


def test_a_prefix_is_for_all_names_that_begin_so():
    """The name itself among them."""
    rules = [rule("app-", pattern=PREFIXED)]
    assert may(rules, name="app-")
    assert may(rules, name="app-one")
    assert not may(rules, name="ap")


def test_a_denial_outweighs_permissions():
    """Wherever it stands, however they are worded."""
    rules = [rule(), rule("*", operation=ALL), rule("t", pattern=PREFIXED, permission=DENY)]
    assert not may(rules)
    assert not may(rules[::-1])
    assert may(rules, name="u")


@pytest.mark.parametrize("operation", [READ, WRITE, DELETE, ALTER])
def test_who_may_do_something_may_describe(operation):
    """And settings may be seen by who may change them; denials imply nothing, nor does the permission to create."""
    assert may([rule(operation=operation)], DESCRIBE)
    assert may([rule(operation=ALTER_CONFIGS)], DESCRIBE_CONFIGS)
    assert not may([rule(operation=CREATE)], DESCRIBE)
    assert not may([rule(operation=DESCRIBE)], operation)
    allowed_all = rule(operation=ALL)
    assert may([allowed_all, rule(operation=operation, permission=DENY)], DESCRIBE)


def test_a_resource_with_rules_is_closed_to_those_they_do_not_mention():
    """The setting decides only where no rule means the resource."""
    assert may([], otherwise=True)
    assert may([rule("u")], otherwise=True)
    assert not may([rule(principal=BOB)], otherwise=True)
    assert not may([], otherwise=False)


NAMES = st.sampled_from(["a", "ab", "*"])
RULES = st.builds(
    AclRule,
    st.sampled_from([TOPIC, GROUP]),
    NAMES,
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from([ALICE, BOB]),
    st.sampled_from(["*", HERE]),
    st.sampled_from([ALL, READ]),
    st.sampled_from([ALLOW, DENY]),
)


@settings(max_examples=100, deadline=None)
@given(RULES)
def test_a_filter_finds_what_it_says(one):
    """The rule itself, nothing that differs, everything where it says nothing."""
    assert AclFilter(ANY, None, ANY_PATTERN, None, None, ANY, ANY).matches(one)
    assert AclFilter(*one).matches(one)
    for index, other in enumerate((4, "other", 7 - one.pattern_type, "User:c", THERE, WRITE, 5 - one.permission)):
        values = list(one)
        values[index] = other
        assert not AclFilter(*values).matches(one)


def test_a_filter_by_match_finds_all_rules_that_mean_a_name():
    """By name, by prefix and by star; the other patterns compare names as they stand."""
    rules = [rule("app"), rule("ap", pattern=PREFIXED), rule("*"), rule("apps"), rule("app", pattern=PREFIXED)]

    def found(pattern, name="app"):
        one = AclFilter(TOPIC, name, pattern, None, None, ANY, ANY)
        return [index for index, each in enumerate(rules) if one.matches(each)]

    assert found(MATCH) == [0, 1, 2, 4]
    assert found(ANY_PATTERN) == [0, 4]
    assert found(LITERAL) == [0]
    assert found(PREFIXED) == [4]
    assert found(MATCH, None) == [0, 1, 2, 3, 4]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.none() | RULES), max_size=10))
def test_the_image_is_what_the_records_left(steps):
    """As a plain dictionary says, and again after a snapshot."""
    model, image = {}, EMPTY_IMAGE
    for number, one in steps:
        key = bytes([number]) * 16
        if one is not None:
            model[key] = one
            values = one._asdict()
            record = AccessControlEntryRecord(id=key, permission_type=values.pop("permission"), **values)
            image = image.apply([record])
        elif model.pop(key, None) is not None:
            image = image.apply([RemoveAccessControlEntryRecord(id=key)])
    assert dict(image.acls.by_id) == model
    again = read_snapshot(b"".join(build_snapshot(image)), SnapshotId(0, 0))
    assert dict(again.acls.by_id) == model


def test_what_is_not_there_cannot_be_removed():
    """Such a record belongs to another log."""
    with pytest.raises(Corrupt):
        EMPTY_IMAGE.apply([RemoveAccessControlEntryRecord(id=bytes(16))])

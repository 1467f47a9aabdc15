"""All rules of access together: after any history they say what each of them says."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.access.acl_rules import AclFilter, AclRule, PatternType, Permission
from stratalog.metadata.access.acls import AclsImage
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.image.snapshot import SnapshotId, build_snapshot, read_snapshot
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import AccessControlEntryRecord, RemoveAccessControlEntryRecord

LITERAL, PREFIXED, MATCH, ANY_PATTERN = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY
ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, GROUP = 2, 3
ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 1, 2, 3, 4, 5, 6, 7, 8, 10, 11
ALICE, BOB, HERE, THERE = "User:alice", "User:bob", "10.0.0.1", "10.0.0.2"


def rule(name="t", *, pattern=LITERAL, principal=ALICE, host="*", operation=READ, permission=ALLOW, kind=TOPIC):
    return AclRule(kind, name, pattern, principal, host, operation, permission)


IMPLIED_BY = {DESCRIBE: {READ, WRITE, DELETE, ALTER}, DESCRIBE_CONFIGS: {ALTER_CONFIGS}}


def concerns(one, principal, host, operation, *, implied=True):
    """Whether a rule is about this caller doing this, read off Kafka's ``findResult``."""
    implying = IMPLIED_BY.get(operation, ()) if implied and one.permission == ALLOW else ()
    return (
        one.principal in (principal, "User:*")
        and one.host in (host, "*")
        and (one.operation in (operation, ALL) or one.operation in implying)
    )


def naive(rules, principal, host, operation, name, otherwise):
    """Kafka's ``authorize``: all rules, one after the other."""
    covering = [one for one in rules if one.kind_covers(name)]
    if not covering:
        return otherwise
    meant = [one.rule for one in covering if concerns(one.rule, principal, host, operation)]
    return bool(meant) and all(one.permission == ALLOW for one in meant)


class Naive:
    """A rule and the names that it covers, spelled out."""

    def __init__(self, one):
        self.rule = one

    def kind_covers(self, name):
        """Whether it is about the topic of this name."""
        one = self.rule
        if one.resource_type != TOPIC:
            return False
        if one.pattern_type == PREFIXED:
            return name[: len(one.resource_name)] == one.resource_name
        return one.resource_name in (name, "*")


def naive_some(rules, principal, host, operation, otherwise):
    """Kafka's ``authorizeByResourceType``, one character at a time."""
    if naive([Naive(one) for one in rules], principal, host, operation, "hardcode", otherwise):
        return True
    mine = [
        one for one in rules if one.resource_type == TOPIC and concerns(one, principal, host, operation, implied=False)
    ]
    denied = {(one.pattern_type, one.resource_name) for one in mine if one.permission == DENY}
    if (LITERAL, "*") in denied:
        return False
    for one in mine:
        name = one.resource_name
        if one.permission == DENY:
            continue
        if (one.pattern_type, name) == (LITERAL, "*"):
            return True
        if one.pattern_type == LITERAL and (LITERAL, name) in denied:
            continue
        if not any((PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1)):
            return True
    return False


def test_a_denial_outweighs_any_permission():
    """On the same name, by a prefix, for everybody: one of them is enough."""
    allowed = rule()
    for denial in (rule(permission=DENY), rule("", pattern=PREFIXED, permission=DENY), rule("*", permission=DENY)):
        batch = batch_of([(0, allowed), (1, denial)], {})
        about = EMPTY_IMAGE.apply(batch).acls.about(TOPIC)
        assert not about.permitted(ALICE, HERE, "t", otherwise=True) >> READ & 1


ANY_RULE = st.builds(
    AclRule,
    st.sampled_from([TOPIC, TOPIC, GROUP]),
    st.sampled_from(["a", "ab", "abc", "b", "ba", "*", "hard", "hardcode"]),
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from([ALICE, BOB, "User:*"]),
    st.sampled_from(["*", HERE, THERE]),
    st.sampled_from([ALL, READ, WRITE, DESCRIBE, ALTER_CONFIGS, 12]),
    st.sampled_from([ALLOW, ALLOW, DENY]),
)
CHANGE = st.tuples(st.integers(0, 12), st.none() | ANY_RULE)
HISTORY = st.lists(st.tuples(st.booleans(), st.lists(CHANGE, max_size=8)), max_size=5)
CALLERS = [(ALICE, HERE), (ALICE, THERE), (BOB, HERE), ("User:c", "::1")]
NAMES_ASKED = ["a", "ab", "abcd", "b", "bab", "*", "hardcode", "z", ""]


def batch_of(changes, model):
    """The records of some changes, which are made to ``model``, too."""
    batch = []
    for number, one in changes:
        key = bytes([number]) * 16
        if one is not None:
            model[key] = one
            values = one._asdict()
            batch.append(AccessControlEntryRecord(id=key, permission_type=values.pop("permission"), **values))
        elif model.pop(key, None) is not None:
            batch.append(RemoveAccessControlEntryRecord(id=key))
    return batch


def assert_decisions(acls, rules, otherwise):
    """Every caller, operation and name, and any name at all."""
    spelled, about = [Naive(one) for one in rules], acls.about(TOPIC)
    for (principal, host), name in itertools.product(CALLERS, NAMES_ASKED):
        permitted = about.permitted(principal, host, name, otherwise=otherwise)
        for operation in range(2, 16):
            expected = naive(spelled, principal, host, operation, name, otherwise)
            assert bool(permitted >> operation & 1) == expected, (principal, host, operation, name)
    for (principal, host), operation in itertools.product(CALLERS, (READ, WRITE, 12)):
        expected = naive_some(rules, principal, host, operation, otherwise)
        assert about.permits_some(principal, host, operation, otherwise=otherwise) == expected


def assert_filters(acls, model):
    """All matches of any filter are among its candidates, once."""
    for rule, pattern in itertools.product(model.values(), PatternType):
        one = AclFilter(*rule)._replace(pattern_type=pattern, operation=ANY)
        for each in (
            one,
            one._replace(principal=None),
            one._replace(resource_name=None),
            one._replace(resource_type=ANY),
        ):
            found = [pair for pair in acls.candidates(each) if each.matches(pair[1])]
            assert len(found) == len(dict(found))
            assert dict(found) == {key: held for key, held in model.items() if each.matches(held)}


@given(HISTORY, st.booleans())
def test_any_history_of_rules_comes_to_what_all_of_them_say(history, otherwise):
    """After each batch of changes and each restart."""
    model, image = {}, EMPTY_IMAGE
    for restarts, changes in history:
        image = image.apply(batch_of(changes, model))
        if restarts:
            image = read_snapshot(b"".join(build_snapshot(image)), SnapshotId(0, 0))
        assert image.acls.by_id == model
        assert_decisions(image.acls, list(model.values()), otherwise)
    assert_filters(image.acls, model)


def test_a_rule_more_costs_the_same_among_many(copied_items):
    """The common part of the images is not copied."""
    large = AclsImage.of({number.to_bytes(16, "big"): rule(f"t-{number}") for number in range(20_000)})
    again = large.updated({b"x" * 16: rule("another")}, {})
    assert copied_items(large.by_id, again.by_id) <= copied_items.a_change_max
    assert len(again.by_id) == len(large.by_id) + 1


def test_a_missing_entry_cannot_be_removed():
    """Such a record belongs to another log."""
    with pytest.raises(Corrupt):
        EMPTY_IMAGE.apply([RemoveAccessControlEntryRecord(id=bytes(16))])

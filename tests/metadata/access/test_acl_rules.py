"""Rules of access: which of them a filter finds."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.access.acl_rules import AclFilter, AclRule, PatternType, Permission

LITERAL, PREFIXED, MATCH, ANY_PATTERN = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY
ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, GROUP = 2, 3
ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 1, 2, 3, 4, 5, 6, 7, 8, 10, 11
ALICE, BOB, HERE, THERE = "User:alice", "User:bob", "10.0.0.1", "10.0.0.2"


def rule(name="t", *, pattern=LITERAL, principal=ALICE, host="*", operation=READ, permission=ALLOW, kind=TOPIC):
    return AclRule(kind, name, pattern, principal, host, operation, permission)


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

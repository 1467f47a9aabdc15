"""Filters of access rules are looked at together: each finds what it finds alone, and thousands cost little more than one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.access.acl_join import find_each
from stratalog.metadata.access.acl_rules import AclFilter, AclRule
from stratalog.metadata.access.acls import AclsImage

NAMES = ["a", "ab", "abc", "b", "*"]
PRINCIPALS = ["User:a", "User:b", "User:*"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2"]
RULES = st.lists(
    st.builds(
        AclRule,
        st.sampled_from([2, 3]),
        st.sampled_from(NAMES),
        st.sampled_from([3, 4]),
        st.sampled_from(PRINCIPALS),
        st.sampled_from(HOSTS),
        st.sampled_from([2, 3, 4]),
        st.sampled_from([2, 3]),
    ),
    max_size=40,
)
FILTERS = st.lists(
    st.builds(
        AclFilter,
        st.sampled_from([1, 2, 3, 4]),
        st.sampled_from([None, None, *NAMES, "c"]),
        st.sampled_from([1, 2, 3, 4]),
        st.sampled_from([None, *PRINCIPALS, "User:c"]),
        st.sampled_from([None, *HOSTS, "10.0.0.3"]),
        st.sampled_from([1, 2, 3]),
        st.sampled_from([1, 2, 3]),
    ),
    max_size=40,
)


def image_of(rules):
    return AclsImage.of({number.to_bytes(16, "big"): rule for number, rule in enumerate(rules)})


def carry_out(acls, filters, too_many=lambda _count: None):
    """The rules found, and the number of pauses on the way."""
    steps, pauses = find_each(acls, filters, too_many), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


@given(rules=RULES, filters=FILTERS)
def test_each_filter_finds_what_it_finds_alone(rules, filters):
    """Compared with every rule, one by one: types, names, patterns, principals, hosts, operations, permissions."""
    acls = image_of(rules)
    found, _ = carry_out(acls, filters)
    assert found.keys() == set(filters)
    for wanted, matching in found.items():
        expected = [rule_id for rule_id, rule in acls.by_id.items() if wanted.matches(rule)]
        assert sorted(rule_id for rule_id, _ in matching) == sorted(expected)


OPEN = AclFilter(1, None, 1, None, None, 1, 1)


@pytest.mark.parametrize(
    "alike",
    [
        lambda number: OPEN._replace(host=f"10.1.{number}"),
        lambda number: OPEN._replace(principal="User:a", host=f"10.1.{number}"),
        lambda number: OPEN._replace(resource_name="t", pattern_type=3, host=f"10.1.{number}"),
        lambda number: OPEN._replace(resource_name=f"t{number}", pattern_type=2, operation=9),
        lambda number: OPEN._replace(principal=f"User:{number}", operation=9, permission=2),
    ],
)
def test_thousands_of_filters_cost_little_more_than_one(alike):
    """2,000 that look at the same 2,000 rules and find none: some thousands of comparisons, it was four million."""
    rules = [AclRule(2, "t", 3, "User:a", f"10.0.{number}", 3, 3) for number in range(1_000)]
    rules += [AclRule(2, "*", 3, "User:b", f"10.0.{number}", 3, 3) for number in range(1_000)]
    found, pauses = carry_out(image_of(rules), [alike(number) for number in range(2_000)])
    assert not any(found.values())
    assert pauses * 500 < 20_000


def test_a_filter_that_finds_too_much_ends_early():
    """Before what is found takes memory: all filters find all rules."""
    rules = [AclRule(2, "*", 3, "User:b", f"10.0.{number}", 3, 3) for number in range(1_000)]
    filters = [AclFilter(2, f"t{number}", 2, None, None, 1, 1) for number in range(1_000)]
    counts = []

    def too_many(count):
        counts.append(count)
        if count > 50_000:
            raise ValueError(count)

    with pytest.raises(ValueError, match="5"):
        carry_out(image_of(rules), filters, too_many)
    assert counts[-1] < 60_000

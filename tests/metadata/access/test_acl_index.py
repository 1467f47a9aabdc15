"""Rules of access: what they come to."""

import time

import pytest

from stratalog.metadata.access.acl_rules import AclFilter, AclRule, PatternType, Permission
from stratalog.metadata.access.acls import AclsImage

LITERAL, PREFIXED, MATCH, ANY_PATTERN = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY
ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, GROUP = 2, 3
ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 1, 2, 3, 4, 5, 6, 7, 8, 10, 11
ALICE, BOB, HERE, THERE = "User:alice", "User:bob", "10.0.0.1", "10.0.0.2"


def rule(name="t", *, pattern=LITERAL, principal=ALICE, host="*", operation=READ, permission=ALLOW, kind=TOPIC):
    return AclRule(kind, name, pattern, principal, host, operation, permission)


def of(rules):
    return AclsImage.of({number.to_bytes(16, "big"): one for number, one in enumerate(rules)})


def may(rules, operation=READ, name="t", principal=ALICE, host=HERE, otherwise=False):
    permitted = of(rules).about(TOPIC).permitted(principal, host, name, otherwise=otherwise)
    return bool(permitted >> operation & 1)


def may_some(rules, operation=WRITE, principal=ALICE, host=HERE, otherwise=False):
    return of(rules).about(TOPIC).permits_some(principal, host, operation, otherwise=otherwise)


def test_a_permission_is_for_one_principal_host_and_operation():
    """No other principal, host or operation passes."""
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
    """A denial by prefix beats permissions by name and by star, as the first rule or the last."""
    rules = [rule(), rule("*", operation=ALL), rule("t", pattern=PREFIXED, permission=DENY)]
    assert not may(rules)
    assert not may(rules[::-1])
    assert may(rules, name="u")


@pytest.mark.parametrize("operation", [READ, WRITE, DELETE, ALTER])
def test_any_permission_includes_describe(operation):
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


def test_any_topic_at_all():
    """One permission is enough, unless a denial covers all of it; what merely implies the operation does not count."""
    assert may_some([rule("x", operation=WRITE)])
    assert may_some([rule("x", operation=ALL, pattern=PREFIXED)])
    assert not may_some([rule("x", operation=READ)])
    assert not may_some([rule("x", operation=WRITE, principal=BOB)])
    assert not may_some([rule("xy", operation=WRITE), rule("x", pattern=PREFIXED, permission=DENY, operation=WRITE)])
    assert may_some([rule("xy", operation=WRITE), rule("xyz", pattern=PREFIXED, permission=DENY, operation=WRITE)])
    assert not may_some([rule("x", operation=WRITE), rule("*", permission=DENY, operation=WRITE)])
    assert may_some([rule("*", operation=WRITE), rule("x", pattern=PREFIXED, permission=DENY, operation=WRITE)])
    assert may_some([], otherwise=True)


def test_many_rules_cost_a_decision_no_more():
    """Only the rules about the name are looked at; thousands of others are not."""
    rules = [
        rule(f"t-{number}", pattern=LITERAL + number % 2, principal=f"User:u{number % 50}") for number in range(5_000)
    ]

    def seconds(many):
        about = of(rules[:many]).about(TOPIC)
        names = [f"t-{number}-x" for number in range(2_000)]
        best = 9.0
        for _ in range(5):
            start = time.process_time()
            for name in names:
                about.permitted(ALICE, HERE, name, otherwise=False)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(5_000) < 20 * seconds(20)


def test_a_rule_is_found_without_looking_at_those_for_other_hosts():
    """A filter with name, principal and host: the thousands of rules for other hosts are no candidates."""
    rules = [rule(host=f"10.0.{number >> 8}.{number & 255}") for number in range(2000)]
    here = [rule(host="10.8.8.8", operation=WRITE), rule(host="10.8.8.8", principal=BOB)]
    image = of([*rules, *here])
    assert [one for _, one in image.candidates(AclFilter(*rules[7]))] == [rules[7]]
    assert rules[7] in image
    assert rule(host="10.9.9.9") not in image
    from_there = AclFilter(TOPIC, "t", LITERAL, None, "10.8.8.8", ANY, ANY)
    assert [one for _, one in image.candidates(from_there)] == here

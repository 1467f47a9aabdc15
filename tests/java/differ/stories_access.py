"""Rights and limits: rules, quotas, credentials, and authentication where there is none."""

from __future__ import annotations

from typing import Any

from tests.java.differ.story import Ask, Story

ANY = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
RULE = {
    "resource_type": 2, "resource_name": "r-{v}", "resource_pattern_type": 3, "principal": "User:a", "host": "*",
    "operation": 3, "permission_type": 3,
}  # fmt: skip


def rule(label: str, **fields: Any) -> Ask:
    """Adds one rule: User:a may read topic r-VERSION, but for the fields that are given."""
    return Ask("CreateAcls", {"creations": [{**RULE, **fields}]}, label)


def rules(label: str, **fields: Any) -> Ask:
    """Asks for rules."""
    return Ask("DescribeAcls", {**ANY, **fields}, label)


RULES = Story(
    "access rules",
    "CreateAcls",
    (
        rule("allow"),
        rule("again"),
        rule("deny", permission_type=2, host="127.0.0.9"),
        rule("prefix", resource_pattern_type=4, resource_name="r-{v}-p"),
        rule("cluster", resource_type=4, resource_name="kafka-cluster", operation=9),
        rule("cluster of another name", resource_type=4, resource_name="x", operation=9),
        rule("group", resource_type=3),
        rule("transaction", resource_type=5, operation=4),
        rule("token", resource_type=6, operation=8),
        rule("user", resource_type=7, operation=13),
        rule("all", operation=2),
        rule("operation that a topic does not have", operation=9),
        rule("operation any", operation=1),
        rule("operation unknown", operation=0),
        rule("operation beyond all", operation=99),
        rule("type any", resource_type=1),
        rule("type unknown", resource_type=0),
        rule("pattern any", resource_pattern_type=1),
        rule("pattern match", resource_pattern_type=2),
        rule("permission any", permission_type=1),
        rule("principal without a type", principal="a"),
        rule("empty principal", principal=""),
        rule("empty host", host=""),
        rule("empty name", resource_name=""),
        Ask("CreateAcls", {"creations": [RULE, {**RULE, "operation": 0}]}, "one good, one bad"),
        Ask("CreateAcls", {}, "none"),
        rules("of the topic", resource_type_filter=2, resource_name_filter="r-{v}"),
    ),
)

RULES_DESCRIBED = Story(
    "described rules",
    "DescribeAcls",
    (
        rule("one", resource_name="dr-{v}"),
        rules("by name", resource_type_filter=2, resource_name_filter="dr-{v}"),
        rules("matching", resource_type_filter=2, resource_name_filter="dr-{v}", pattern_type_filter=2),
        rules("by principal", resource_name_filter="dr-{v}", principal_filter="User:a"),
        rules("by another principal", resource_name_filter="dr-{v}", principal_filter="User:b"),
        rules("by host", resource_name_filter="dr-{v}", host_filter="*"),
        rules("none of them", resource_type_filter=2, resource_name_filter="nothing"),
        rules("unknown type", resource_type_filter=0),
        rules("unknown operation", operation=0),
        rules("unknown permission", permission_type=0),
        rules("unknown pattern", pattern_type_filter=0),
    ),
)


def without(label: str, **fields: Any) -> Ask:
    """Deletes rules."""
    return Ask("DeleteAcls", {"filters": [{**ANY, **fields}]}, label)


RULES_DELETED = Story(
    "deleted rules",
    "DeleteAcls",
    (
        rule("one", resource_name="xr-{v}"),
        without("by name", resource_type_filter=2, resource_name_filter="xr-{v}"),
        without("again", resource_type_filter=2, resource_name_filter="xr-{v}"),
        without("unknown type", resource_type_filter=0),
        without("unknown operation", operation=0),
        Ask("DeleteAcls", {}, "none"),
    ),
)


def quota(label: str, entity: dict[str, str | None], *ops: tuple[str, float, bool], **body: Any) -> Ask:
    """Sets or removes quotas of an entity."""
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [{"key": key, "value": value, "remove": remove} for key, value, remove in ops],
    }
    return Ask("AlterClientQuotas", {"entries": [entry], **body}, label)


def quotas(label: str, *components: tuple[str, int, str | None], strict: bool = False) -> Ask:
    """Asks for quotas."""
    asked = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    return Ask("DescribeClientQuotas", {"components": asked, "strict": strict}, label)


QUOTAS = Story(
    "altered quotas",
    "AlterClientQuotas",
    (
        quota("user", {"user": "u-{v}"}, ("producer_byte_rate", 1e12, False)),
        quota(
            "client", {"client-id": "c-{v}"}, ("consumer_byte_rate", 1e12, False), ("request_percentage", 1e6, False)
        ),
        quota("both", {"user": "u-{v}", "client-id": "c-{v}"}, ("controller_mutation_rate", 1e6, False)),
        quota("default user", {"user": None}, ("producer_byte_rate", 1e12, False)),
        quota("address", {"ip": "192.0.2.1"}, ("connection_creation_rate", 1000, False)),
        quotas("of the user", ("user", 0, "u-{v}")),
        quotas("of the user, strict", ("user", 0, "u-{v}"), strict=True),
        quotas("of both", ("user", 0, "u-{v}"), ("client-id", 0, "c-{v}")),
        quotas("of the default user", ("user", 1, None)),
        quotas("of any user, strict", ("user", 2, None), strict=True),
        quotas("of the address", ("ip", 0, "192.0.2.1")),
        quota("only checked", {"user": "u-{v}"}, ("producer_byte_rate", 5, False), validate_only=True),
        quota("unknown key", {"user": "u-{v}"}, ("no_such", 5, False)),
        quota("key of addresses for a user", {"user": "u-{v}"}, ("connection_creation_rate", 5, False)),
        quota("key of users for an address", {"ip": "192.0.2.1"}, ("producer_byte_rate", 5, False)),
        quota("unknown type", {"planet": "u-{v}"}, ("producer_byte_rate", 5, False)),
        quota("no entity", {}, ("producer_byte_rate", 5, False)),
        quota("empty user", {"user": ""}, ("producer_byte_rate", 5, False)),
        quota("user and address", {"user": "u-{v}", "ip": "192.0.2.1"}, ("producer_byte_rate", 5, False)),
        quota("zero", {"user": "u-{v}"}, ("producer_byte_rate", 0, False)),
        quota("negative", {"user": "u-{v}"}, ("producer_byte_rate", -5, False)),
        quota("a fraction of a byte", {"user": "u-{v}"}, ("producer_byte_rate", 1.5, False)),
        quota("no address", {"ip": "not an address"}, ("connection_creation_rate", 5, False)),
        quota("no operations", {"user": "u-{v}"}),
        quota("remove what is not there", {"user": "absent"}, ("producer_byte_rate", 0, True)),
        quota("remove unknown", {"user": "u-{v}"}, ("no_such", 0, True)),
        quota("remove user", {"user": "u-{v}"}, ("producer_byte_rate", 0, True)),
        quota(
            "remove client", {"client-id": "c-{v}"}, ("consumer_byte_rate", 0, True), ("request_percentage", 0, True)
        ),
        quota("remove both", {"user": "u-{v}", "client-id": "c-{v}"}, ("controller_mutation_rate", 0, True)),
        quota("remove default user", {"user": None}, ("producer_byte_rate", 0, True)),
        quota("remove address", {"ip": "192.0.2.1"}, ("connection_creation_rate", 0, True)),
        Ask("AlterClientQuotas", {}, "none"),
    ),
)

QUOTAS_DESCRIBED = Story(
    "described quotas",
    "DescribeClientQuotas",
    (
        quotas("all"),
        quotas("all, strict", strict=True),
        quotas("unknown type", ("planet", 0, "x")),
        quotas("empty type", ("", 0, "x")),
        quotas("a type twice", ("user", 0, "x"), ("user", 0, "y")),
        quotas("exact without a name", ("user", 0, None)),
        quotas("default with a name", ("user", 1, "x")),
        quotas("any with a name", ("user", 2, "x")),
        quotas("unknown match", ("user", 9, None)),
        quotas("user and address", ("user", 0, "x"), ("ip", 0, "192.0.2.1")),
    ),
)


def credential(name: str, mechanism: int, iterations: int = 4096, salt: bytes = b"salt") -> dict[str, Any]:
    """One credential to be set."""
    return {
        "name": name, "mechanism": mechanism, "iterations": iterations, "salt": salt, "salted_password": b"p" * 32,
    }  # fmt: skip


def credentials(label: str, *upsertions: dict[str, Any], gone: tuple[tuple[str, int], ...] = ()) -> Ask:
    """Sets and deletes credentials."""
    deletions = [{"name": name, "mechanism": mechanism} for name, mechanism in gone]
    return Ask("AlterUserScramCredentials", {"upsertions": list(upsertions), "deletions": deletions}, label)


CREDENTIALS = Story(
    "credentials",
    "AlterUserScramCredentials",
    (
        credentials("one", credential("alice", 1)),
        credentials("two mechanisms", credential("alice", 1), credential("alice", 2)),
        Ask("DescribeUserScramCredentials", {"users": [{"name": "alice"}]}, "described"),
        Ask("DescribeUserScramCredentials", {"users": None}, "all described"),
        Ask("DescribeUserScramCredentials", {"users": []}, "all described by no names"),
        Ask("DescribeUserScramCredentials", {"users": [{"name": "absent"}]}, "unknown described"),
        Ask("DescribeUserScramCredentials", {"users": [{"name": ""}]}, "empty described"),
        Ask("DescribeUserScramCredentials", {"users": [{"name": "alice"}] * 2}, "twice described"),
        credentials("empty user", credential("", 1)),
        credentials("unknown mechanism", credential("bob", 9)),
        credentials("no mechanism", credential("bob", 0)),
        credentials("few iterations", credential("bob", 1, 4095)),
        credentials("many iterations", credential("bob", 1, 16385)),
        credentials("empty salt", credential("bob", 1, salt=b"")),
        credentials("several bad ones", credential("", 1), credential("bob", 9), credential("carol", 1, 1)),
        credentials("bad ones of one user", credential("bob", 9), credential("bob", 1, 1)),
        credentials("one good, one bad", credential("dave", 1), credential("", 1)),
        credentials("one user good and bad", credential("erin", 1), credential("erin", 9)),
        credentials("the same twice", credential("bob", 1), credential("bob", 1)),
        credentials("set and deleted", credential("bob", 1), gone=(("bob", 1),)),
        credentials("empty user, set and deleted", credential("", 1), gone=(("", 1),)),
        credentials("unknown mechanism, set and deleted", credential("bob", 9), gone=(("bob", 9),)),
        credentials("delete unknown", gone=(("absent", 1),)),
        credentials("delete unknown mechanism", gone=(("alice", 9),)),
        credentials("delete empty user", gone=(("", 1),)),
        credentials("delete twice", gone=(("alice", 2), ("alice", 2))),
        credentials("delete", gone=(("alice", 1), ("alice", 2))),
        credentials("delete the rest", gone=(("dave", 1), ("erin", 1), ("bob", 1))),
        credentials("none"),
        Ask("DescribeUserScramCredentials", {"users": None}, "all in the end"),
    ),
)

NO_LOGIN = Story(
    "no login",
    "SaslHandshake",
    (Ask("SaslHandshake", {"mechanism": "PLAIN"}, "known"), Ask("SaslHandshake", {"mechanism": "x"}, "unknown")),
)
NO_PASSWORD = Story("no password", "SaslAuthenticate", (Ask("SaslAuthenticate", {"auth_bytes": b"x"}, "bytes"),))

STORIES = (RULES, RULES_DESCRIBED, RULES_DELETED, QUOTAS, QUOTAS_DESCRIBED, CREDENTIALS, NO_LOGIN, NO_PASSWORD)

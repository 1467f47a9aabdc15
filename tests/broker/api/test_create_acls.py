"""CreateAcls: rules hold at once and last, or there is no authorizer."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_acls import AclCreation, CreateAclsRequest

NAME = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def rule(**values):
    defaults = {
        "resource_type": 2,
        "resource_name": "t",
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AclCreation(**{**defaults, **values})


def ask(broker, *rules, version=3):
    results = broker.link().call(CreateAclsRequest(creations=list(rules)), version).results
    return [(ErrorCode(one.error_code), one.error_message) for one in results]


@pytest.mark.parametrize("version", range(1, 4))
def test_security_is_disabled_for_each_rule_without_an_authorizer(shared_broker, version):
    """As many outcomes as rules; nothing is kept."""
    expected = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert ask(shared_broker, rule(), rule(), version=version) == [expected] * 2
    assert shared_broker.node.image.acls.by_id == {}


@pytest.mark.parametrize("version", range(1, 4))
def test_rules_outlast_a_restart(start_node, version):
    """Each succeeds or fails for itself."""
    node = start_node(**{"authorizer.class.name": NAME, "super.users": "User:ANONYMOUS"})
    good, bad = ask(node, rule(), rule(operation=1), version=version)
    assert good == (ErrorCode.NONE, None)
    assert bad == (ErrorCode.INVALID_REQUEST, "Invalid operation 1")
    node.restart()
    assert [one.principal for one in node.node.image.acls.by_id.values()] == ["User:a"]


def test_without_alter_on_the_cluster_no_rule_is_added(start_node):
    """CLUSTER_AUTHORIZATION_FAILED for each."""
    node = start_node(**{"authorizer.class.name": NAME})
    ((code, _),) = ask(node, rule())
    assert code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

"""DescribeAcls: rules, resource by resource, or that there is no authorizer."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from stratalog.wire.messages.describe_acls import DescribeAclsRequest

NAME = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def wanted(**values):
    defaults = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return DescribeAclsRequest(**{**defaults, **values})


@pytest.mark.parametrize("version", range(1, 4))
def test_security_is_disabled_without_an_authorizer(shared_broker, version):
    """Said in Kafka's words, in every version."""
    answer = shared_broker.link().call(wanted(), version)
    assert (ErrorCode(answer.error_code), answer.error_message) == (
        ErrorCode.SECURITY_DISABLED,
        "No Authorizer is configured.",
    )
    assert answer.resources == []


@pytest.mark.parametrize("version", range(1, 4))
def test_rules_are_answered_by_resource(start_node, version):
    """Those that the filter finds; a filter of unknown numbers is invalid."""
    node = start_node(**{"authorizer.class.name": NAME, "super.users": "User:ANONYMOUS"})
    link = node.link()
    creations = [
        AclCreation(resource_type=2, resource_name="t", principal=principal, host="*", operation=3, permission_type=3)
        for principal in ("User:a", "User:b")
    ]
    link.call(CreateAclsRequest(creations=creations), version)
    answer = link.call(wanted(resource_type_filter=2, resource_name_filter="t"), version)
    (resource,) = answer.resources
    assert (answer.error_code, resource.resource_name, resource.pattern_type) == (0, "t", 3)
    assert [(rule.principal, rule.operation, rule.permission_type) for rule in resource.acls] == [
        ("User:a", 3, 3),
        ("User:b", 3, 3),
    ]
    assert link.call(wanted(principal_filter="User:c"), version).resources == []
    assert link.call(wanted(operation=0), version).error_code == ErrorCode.INVALID_REQUEST

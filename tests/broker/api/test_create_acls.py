"""CreateAcls: there is no authorizer."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_acls import AclCreation, CreateAclsRequest


@pytest.mark.parametrize("version", range(1, 4))
def test_security_is_disabled_for_each_rule(shared_broker, version):
    """As many outcomes as rules."""
    rule = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)
    results = shared_broker.link().call(CreateAclsRequest(creations=[rule, rule]), version).results
    expected = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert [(one.error_code, one.error_message) for one in results] == [expected] * 2

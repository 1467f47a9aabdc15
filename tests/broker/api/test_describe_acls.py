"""DescribeAcls: there is no authorizer."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_acls import DescribeAclsRequest


@pytest.mark.parametrize("version", range(1, 4))
def test_security_is_disabled(shared_broker, version):
    """Said in Kafka's words, in every version."""
    request = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    answer = shared_broker.link().call(request, version)
    assert (ErrorCode(answer.error_code), answer.error_message) == (
        ErrorCode.SECURITY_DISABLED,
        "No Authorizer is configured.",
    )
    assert answer.resources == []

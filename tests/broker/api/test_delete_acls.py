"""DeleteAcls: there is no authorizer."""

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest


@pytest.mark.parametrize("version", range(1, 4))
def test_security_is_disabled_for_each_filter(shared_broker, version):
    """As many outcomes as filters, none with a match."""
    one = DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    results = shared_broker.link().call(DeleteAclsRequest(filters=[one, one]), version).filter_results
    expected = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.", [])
    assert [(each.error_code, each.error_message, each.matching_acls) for each in results] == [expected] * 2

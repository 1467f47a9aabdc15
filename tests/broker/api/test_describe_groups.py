"""DescribeGroups over the wire."""

import pytest

from stratalog.broker.api import describe_groups
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.describe_groups import DescribeGroupsRequest


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_the_order_asked_for(link_to_groups, version):
    """Whichever partitions they belong to."""
    answer = link_to_groups.call(DescribeGroupsRequest(groups=["none", "busy", "empty"]), version)
    assert [(one.group_id, one.group_state) for one in answer.groups] == [
        ("none", "Dead"),
        ("busy", "CompletingRebalance"),
        ("empty", "Empty"),
    ]
    assert [one.error_code for one in answer.groups] == [ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0, 0, 0]
    assert len(answer.groups[1].members) == 1


def test_the_callers_operations_are_answered(link_to_groups):
    """If it is asked for (KIP-430)."""
    without, with_ = (
        link_to_groups.call(DescribeGroupsRequest(groups=["busy"], include_authorized_operations=asked), 5).groups[0]
        for asked in (False, True)
    )
    assert without.authorized_operations == -(1 << 31)
    allowed = {Operation.READ, Operation.DELETE, Operation.DESCRIBE}
    assert {one for one in allowed if with_.authorized_operations >> one & 1} == allowed


def test_each_group_gets_the_failure():
    """There is no error code for the whole."""
    answer = describe_groups.API.failure(
        DescribeGroupsRequest(groups=["g"]), 0, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    )
    (one,) = answer.groups
    assert (one.group_id, one.error_code) == ("g", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (describe_groups.API.operation, describe_groups.API.resource) == (Operation.DESCRIBE, ResourceType.GROUP)

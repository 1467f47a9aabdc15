"""DeleteGroups over the wire."""

import pytest

from stratalog.broker.api import delete_groups
from stratalog.broker.requests.authorizer import Operation, ResourceType
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.messages.delete_groups import DeleteGroupsRequest


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted(link_to_groups, version):
    """One with members is not, one that is not there is not found; a name that is given twice is one."""
    answer = link_to_groups.call(DeleteGroupsRequest(groups_names=["busy", "none", "none"]), version)
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        ("busy", ErrorCode.NON_EMPTY_GROUP),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def test_an_empty_group_is_deleted(link_to_groups):
    """And is not listed any more."""
    assert link_to_groups.call(DeleteGroupsRequest(groups_names=["empty"]), 2).results[0].error_code == 0
    assert link_to_groups.call(DeleteGroupsRequest(groups_names=["empty"]), 2).results[0].error_code == 69


def test_each_group_gets_the_failure():
    """There is no error code for the whole."""
    answer = delete_groups.API.failure(
        DeleteGroupsRequest(groups_names=["g"]), 0, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    )
    (one,) = answer.results
    assert (one.group_id, one.error_code) == ("g", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (delete_groups.API.operation, delete_groups.API.resource) == (Operation.DELETE, ResourceType.GROUP)

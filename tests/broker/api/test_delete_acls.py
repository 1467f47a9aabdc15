"""DeleteAcls: what filters find goes, or there is no authorizer."""

import pytest

from stratalog.broker.api import acl_search, create_acls, delete_acls
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from stratalog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

NAME = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def one(**values):
    defaults = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return DeleteAclsFilter(**{**defaults, **values})


@pytest.mark.parametrize("version", range(1, 4))
def test_security_is_disabled_for_each_filter_without_an_authorizer(shared_broker, version):
    """As many outcomes as filters, none with a match."""
    results = shared_broker.link().call(DeleteAclsRequest(filters=[one(), one()]), version).filter_results
    expected = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.", [])
    assert [(each.error_code, each.error_message, each.matching_acls) for each in results] == [expected] * 2


@pytest.mark.parametrize("version", range(1, 4))
def test_rules_matched_by_a_filter_go(start_node, version):
    """The answer names it; a filter of unknown numbers finds nothing and says why."""
    node = start_node(**{"authorizer.class.name": NAME, "super.users": "User:ANONYMOUS"})
    creations = [
        AclCreation(resource_type=2, resource_name=name, principal="User:a", host="*", operation=4, permission_type=2)
        for name in ("t", "u")
    ]
    node.link().call(CreateAclsRequest(creations=creations), version)
    request = DeleteAclsRequest(filters=[one(resource_name_filter="t"), one(permission_type=0)])
    found, bad = node.link().call(request, version).filter_results
    (gone,) = found.matching_acls
    assert (gone.resource_name, gone.principal, gone.operation, gone.permission_type) == ("t", "User:a", 4, 2)
    assert (gone.error_code, gone.pattern_type, found.error_code) == (0, 3, 0)
    assert (bad.error_code, bad.matching_acls) == (ErrorCode.INVALID_REQUEST, [])
    assert [each.resource_name for each in node.node.image.acls.by_id.values()] == ["u"]


def test_many_rules_are_added_found_and_removed_a_few_at_a_time(start_node, monkeypatch):
    """No command holds the loop for long; each outcome stands in its place."""
    for module in (create_acls, delete_acls):
        monkeypatch.setattr(module, "CHANGES_AT_ONCE", 2)
    monkeypatch.setattr(acl_search, "PAUSE_RULES", 2)
    node = start_node(**{"authorizer.class.name": NAME, "super.users": "User:ANONYMOUS"})
    creations = [
        AclCreation(resource_type=2, resource_name=name, principal="User:a", host="*", operation=4, permission_type=2)
        for name in ("a", "b", "", "c", "d", "a")
    ]
    results = node.link().call(CreateAclsRequest(creations=creations), 3).results
    assert [each.error_code for each in results] == [0, 0, ErrorCode.INVALID_REQUEST, 0, 0, 0]
    request = DeleteAclsRequest(filters=[one(), one(resource_name_filter="b"), one(principal_filter="User:b")])
    everything, named, nothing = node.link().call(request, 3).filter_results
    assert sorted(each.resource_name for each in everything.matching_acls) == ["a", "b", "c", "d"]
    assert [each.resource_name for each in named.matching_acls] == ["b"]
    assert nothing.matching_acls == []
    assert not node.node.image.acls.by_id


def test_filters_that_find_more_than_an_answer_takes_delete_nothing(start_node, monkeypatch):
    """They are refused with a sentence, before a rule has gone."""
    monkeypatch.setattr(delete_acls, "FOUND_MAX", 2)
    monkeypatch.setattr("stratalog.metadata.access.acl_join._PAUSE_STEPS", 1)
    node = start_node(**{"authorizer.class.name": NAME, "super.users": "User:ANONYMOUS"})
    creations = [
        AclCreation(resource_type=2, resource_name=name, principal="User:a", host="*", operation=4, permission_type=2)
        for name in ("a", "b", "c")
    ]
    node.link().call(CreateAclsRequest(creations=creations), 3)
    (refused,) = node.link().call(DeleteAclsRequest(filters=[one()]), 3).filter_results
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert "ask for fewer" in refused.error_message
    assert len(node.node.image.acls.by_id) == 3

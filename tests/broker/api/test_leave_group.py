"""LeaveGroup: who leaves, and why."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api import leave_group
from stratalog.broker.requests.dispatch import PENDING
from stratalog.wire.errors import KafkaError
from stratalog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity


def context(taken, *, allowed=True):
    """A request whose group, if it may be asked, notes who asks."""
    groups = SimpleNamespace(submit=lambda _, group_id, request: taken.append((group_id, request)) or PENDING)
    return SimpleNamespace(broker=SimpleNamespace(groups=groups), allows=lambda _: allowed)


def test_the_group_is_asked():
    """As a whole, however many members leave."""
    taken = []
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="a"), MemberIdentity(member_id="b")])
    assert leave_group.API.handle(context(taken), request) is PENDING
    assert taken == [("g", request)]


def test_reasons_are_logged(caplog):
    """The log names each member that gives one (KIP-800), by its member id or by its instance id; a long one is cut."""
    caplog.set_level("INFO")
    members = [
        MemberIdentity(member_id="a", reason="closed\nnow"),
        MemberIdentity(member_id="b"),
        MemberIdentity(member_id="", group_instance_id="i", reason="x" * 1_000),
    ]
    leave_group.API.handle(context([]), LeaveGroupRequest(group_id="g", members=members))
    first, second = (record.getMessage() for record in caplog.records)
    assert first == "group 'g': 'a' leaves: 'closed\\nnow'"
    assert second.startswith("group 'g': 'i' leaves: 'xxx")
    assert len(second) < 400


def test_few_of_very_many_reasons_are_logged(caplog):
    """A line for each of 9,900 took 80 ms."""
    caplog.set_level("INFO")
    members = [MemberIdentity(member_id=f"m{number}", reason="r") for number in range(9_900)]
    leave_group.API.handle(context([]), LeaveGroupRequest(group_id="g", members=members))
    *lines, last = (record.getMessage() for record in caplog.records)
    assert (len(lines), last) == (10, "group 'g': 9890 more leave with a reason")


def test_without_read_on_the_group_the_request_is_refused():
    """Is refused before it is asked."""
    taken = []
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        leave_group.API.handle(context(taken, allowed=False), LeaveGroupRequest(group_id="g"))
    assert taken == []

"""LeaveGroup."""

from stratalog.wire.errors import ErrorCode


def test_a_member_leaves(classic_world):
    """The others rebalance at once."""
    world = classic_world()
    world.stable("a", "b")
    answer = world.leave(("client-a", None))
    assert (answer.error_code, answer.members[0].error_code) == (0, 0)
    assert (world.state, world.ids, world.group.members.leader_id) == ("PreparingRebalance", ["client-b"], "client-b")
    assert world.beat("client-b", 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_member_leaves(classic_world):
    """The answer waits until the empty group is in the log."""
    world = classic_world()
    world.stable("a")
    world.held = True
    assert world.leave(("client-a", None)) is None
    world.commit()
    assert world.answers["leave"].members[0].error_code == 0
    assert world.state == "Empty"


def test_old_versions_name_one_member(classic_world):
    """And its error is that of the answer."""
    world = classic_world()
    world.stable("a", "b")
    assert world.leave(("client-x", None), version=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave(("client-a", None), version=0).error_code == 0
    assert world.ids == ["client-b"]


def test_many_members_leave(classic_world):
    """Each has its outcome; an administrator names static ones by their instance ids alone."""
    world = classic_world()
    world.join("s", group_instance_id="i")
    world.join("t", group_instance_id="j")
    world.stable("a", "b")
    answer = world.leave(("", "i"), ("client-a", None), ("client-x", None), ("", "k"), ("", None), ("j-old", "j"))
    unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
    assert [one.error_code for one in answer.members] == [0, 0, unknown, unknown, unknown, fenced]
    assert [(one.member_id, one.group_instance_id) for one in answer.members][:2] == [("", "i"), ("client-a", None)]
    assert world.ids == ["j-t", "client-b"]


def test_a_leave_without_members(classic_world):
    """A group goes on if all that were named are strangers."""
    world = classic_world()
    world.stable("a")
    world.leave(("client-x", None))
    assert world.state == "Stable"
    assert world.beat("client-a", 1) == 0


def test_an_id_is_given_back(classic_world):
    """A newcomer that will not come again with its id is not waited for."""
    world = classic_world()
    world.stable("a")
    world.join("b", version=4)
    world.rejoin("a", "client-a")
    assert "join-a" not in world.answers
    assert world.leave(("client-b", None)).members[0].error_code == 0
    assert world.answers["join-a"].generation_id == 2


def test_one_that_waits_leaves(classic_world):
    """Its JoinGroup is answered, and the rebalance goes on without it."""
    world = classic_world()
    world.stable("a", "b")
    world.join("c")
    world.rejoin("a", "client-a")
    world.leave(("client-b", None))
    assert world.answers["join-c"].generation_id == 2
    world.join("d")
    world.leave(("client-d", None))
    assert world.answers["join-d"].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_is_gone(classic_world):
    """Everybody is a stranger to it."""
    world = classic_world()
    assert world.leave(("a", None), ("b", None)).members[1].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave(("a", None), version=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID

"""kill -9: groups, assignments, epochs, offsets and open transactions are what they were, and their members go on."""

import signal

import pytest

from stratalog.client.admin import create_topic
from stratalog.client.client import Client

SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
}
PARTITIONS = 4


@pytest.fixture
def killed(serve_process, wire_to):
    """A broker with a topic; `again` kills it and gives a connection to the one that is started in its place."""

    class Killed:
        def __init__(self):
            self.process = serve_process(**{name.replace(".", "_"): value for name, value in SETTINGS.items()})
            with Client(self.process.address) as client:
                self.topic_id = create_topic(client, "t", partition_count=PARTITIONS).topic_id
            self.wire = wire_to(self.process.port).ready()

        def again(self):
            self.process.end(signal.SIGKILL)
            self.process.start()
            self.wire = wire_to(self.process.port).ready()
            return self.wire

    return Killed()


@pytest.mark.story
def test_classic_groups_go_on(killed):
    """Stable, empty and simple ones: generations, leaders, members, assignments and offsets; no rebalance follows."""
    wire = killed.wire
    members = wire.stable("stable", None, "static", metadata=b"subscription")
    assert wire.commit("stable", 7, member=members[0].member_id, epoch=members[0].generation, text="so far") == "NONE"
    (gone,) = wire.stable("left", None, session_ms=6_000)
    assert wire.commit("left", 3, partitions=(1, 2), member=gone.member_id, epoch=gone.generation) == "NONE"
    assert wire.commit("simple", 9, partitions=(0, 3)) == "NONE"
    before = wire.everything()
    assert [one[2] for one in before["groups"]] == ["Stable", "Empty", "Stable"]
    wire = killed.again()
    assert wire.everything() == before
    assert [wire.beat(one) for one in members] == ["NONE", "NONE"]
    assert [wire.sync(one).assignment for one in members] == [b"share 0", b"share 1"]
    assert wire.commit("stable", 8, member=members[1].member_id, epoch=members[1].generation) == "NONE"
    again = wire.join("stable", instance="static", metadata=b"subscription")
    assert (again.error_code, again.generation_id, again.leader) == (0, members[0].generation, members[0].member_id)
    assert wire.beat(members[0]) == "NONE"
    assert wire.beat(members[1]) == "FENCED_INSTANCE_ID"
    after = wire.everything()
    assert after["groups"] == before["groups"]
    assert after["offsets of stable"][0] == [("t", 0, 8, "", "NONE")]


@pytest.mark.story
def test_consumer_groups_go_on(killed):
    """KIP-848: epochs and assignments, also of a member that was just giving partitions away."""
    wire, topic_id = killed.wire, killed.topic_id
    first = wire.consume("new", "first", 0, topics=["t"])
    assert first.assignment.topic_partitions[0].partitions == [0, 1, 2, 3]
    own = [(topic_id, (0, 1, 2, 3))]
    assert wire.consume("new", "first", first.member_epoch, owned=own).member_epoch == first.member_epoch
    second = wire.consume("new", "second", 0, topics=["t"], instance_id="static")
    assert second.assignment.topic_partitions == []
    giving = wire.consume("new", "first", first.member_epoch, owned=own)
    kept = giving.assignment.topic_partitions[0].partitions
    assert (giving.member_epoch, len(kept)) == (first.member_epoch, 2)
    pattern = wire.consume("patterns", "only", 0, topics=[], subscribed_topic_regex="t.*")
    epoch = pattern.member_epoch
    assert wire.commit("patterns", 5, member="only", epoch=epoch, text="by pattern") == "NONE"
    before = wire.everything()
    assert before["groups"] == [
        ("new", "consumer", "Reconciling", "consumer"),
        ("patterns", "consumer", "Stable", "consumer"),
    ]
    wire = killed.again()
    assert wire.everything() == before
    same = wire.consume("patterns", "only", epoch)
    assert (same.error_code, same.member_epoch, same.assignment) == (0, epoch, None)
    assert wire.commit("patterns", 6, member="only", epoch=epoch) == "NONE"
    done = wire.consume("new", "first", first.member_epoch, owned=[(topic_id, kept)])
    assert (done.error_code, done.member_epoch) == (0, second.member_epoch)
    given = wire.consume("new", "second", second.member_epoch, owned=[])
    assert sorted([*kept, *given.assignment.topic_partitions[0].partitions]) == [0, 1, 2, 3]
    found = wire.described("new", "consumer")
    assert found.group_epoch == before["group new"].group_epoch


@pytest.mark.story
@pytest.mark.parametrize(
    ("produces", "commits", "ends"),
    [pytest.param(11, 4, 4, marks=pytest.mark.slow, id="v1"), pytest.param(12, 5, 5, id="v2")],
)
def test_open_transactions_go_on(killed, produces, commits, ends):
    """Their partitions, their pending offsets and the last stable offset; the producer commits what it began before."""
    wire = killed.wire
    assert wire.commit("g", 1) == "NONE"
    done = wire.producer("done")
    assert wire.produce(done, 1, version=12, transactional_id="done") == "NONE"
    wire.end(done, version=5, transactional_id="done")
    wire.settled("done")
    wire.producer("idle")
    open_one = wire.producer()
    if produces < 12:
        assert wire.add(open_one, 0, 2) == "NONE"
        assert wire.add_offsets(open_one, "g") == "NONE"
    for partition in (0, 2):
        assert wire.produce(open_one, partition, version=produces) == "NONE"
    assert wire.commit_in_transaction(open_one, "g", 40, version=commits) == "NONE"
    before = wire.everything()
    assert before["offsets of g"] == (
        [("t", 0, 1, "", "NONE")],
        [("t", 0, -1, "", "UNSTABLE_OFFSET_COMMIT")],
    )
    assert before["ends"] == [[1, 2, 1, 0], [0, 2, 0, 0]]
    assert before["transaction x"].transaction_state == "Ongoing"
    wire = killed.again()
    assert wire.everything() == before
    assert wire.produce(open_one, 0, version=produces, sequence=1, value=b"after") == "NONE"
    assert wire.end(open_one, version=ends).error_code == 0
    assert wire.settled() == "CompleteCommit"
    assert wire.offsets("g", stable=True) == [("t", 0, 40, "in transaction", "NONE")]
    assert wire.ends("t", PARTITIONS, committed=True) == wire.ends("t", PARTITIONS, committed=False) == [3, 2, 2, 0]


@pytest.mark.story
def test_a_kill_in_the_middle_of_a_rebalance(killed):
    """The generation before it holds, as no client had heard of the new one; joining again begins it anew."""
    wire = killed.wire
    (member,) = wire.stable("g", None)
    joining = wire.another()
    member_id = joining.id_for("g")
    joining.send(joining.join_request("g", member_id), 9)
    while wire.beat(member) != "REBALANCE_IN_PROGRESS":
        pass
    wire = killed.again()
    found = wire.described("g")
    assert (found.group_state, [one.member_id for one in found.members]) == ("Stable", [member.member_id])
    assert wire.beat(member) == "NONE"
    assert wire.beat(member._replace(member_id=member_id)) == "UNKNOWN_MEMBER_ID"
    grown = wire._grown([member], None, {})
    assert [one.generation for one in grown] == [member.generation + 1] * 2
    assert [wire.beat(one) for one in grown] == ["NONE", "NONE"]

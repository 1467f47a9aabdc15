"""Three nodes of a quorum with real logs, whose requests go from one to the other as values."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from stratalog.broker.quorum.opening import QuorumPlace, open_quorum
from stratalog.broker.quorum.publishing import at_start
from stratalog.broker.quorum.quorum_peers import NoAnswer
from stratalog.broker.replicas.directories import Directories
from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.runtime.tick import Tick
from stratalog.broker.settings.config import load_config
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.raft.actions import BOOTSTRAP
from stratalog.metadata.raft.voter_set import Endpoint
from stratalog.wire.errors import Corrupt, ErrorCode, KafkaError
from stratalog.wire.records.metadata import FeatureLevelRecord, TopicRecord

VOTERS = "1@a:1,2@b:2,3@c:3"


class Net:
    """Carries requests; ``cut`` has the nodes that hear and say nothing."""

    def __init__(self):
        self.nodes, self.cut = {}, set()

    def peers_of(self, node_id):
        async def ask(peer, request, _endpoints):
            target = random.choice(sorted(self.nodes)) if peer == BOOTSTRAP else peer
            node = self.nodes.get(target)
            if node is None or {node_id, target} & self.cut:
                await asyncio.sleep(0.01)
                raise NoAnswer(ErrorCode.REQUEST_TIMED_OUT, "cut")
            try:
                return await asyncio.wait_for(node.quorum.receive(request), 2)
            except (TimeoutError, asyncio.CancelledError) as error:
                raise NoAnswer(ErrorCode.REQUEST_TIMED_OUT, "no answer") from error

        return SimpleNamespace(ask=ask, close=lambda: None)


class Member:
    """One node on its directory. ``die`` leaves the files as a kill would."""

    def __init__(self, net, directory, node_id, threads):
        self.net, self.directory, self.node_id, self.threads = net, str(directory / str(node_id)), node_id, threads
        self.failed = asyncio.Event()

    def start(self):
        loop, files = asyncio.get_running_loop(), RealFilesystem()
        self.directories = Directories.open(
            [self.directory], files=files, node_id=self.node_id, loop=loop, tick=Tick(loop), sync_threads=self.threads,
            on_failed=lambda _writer, _error: None,
        )  # fmt: skip
        (home,) = self.directories.all
        roles = load_config(
            assignments=[
                f"node.id={self.node_id}", f"log.dirs={self.directory}", "process.roles=controller",
                f"listeners=CONTROLLER://x:{self.node_id}", "controller.listener.names=CONTROLLER",
                f"controller.quorum.voters={VOTERS}", "controller.quorum.election.timeout.ms=100",
                "controller.quorum.fetch.timeout.ms=300",
            ]
        ).roles  # fmt: skip
        place = QuorumPlace(
            home=home, roles=roles, cluster_id="c", endpoints=(Endpoint("CONTROLLER", "x", self.node_id),)
        )
        self.quorum = open_quorum(
            place, peers=self.net.peers_of(self.node_id), files=files, clock=SystemClock(), dice=random.Random(),
            threads=self.threads, in_slices=at_start, on_failed=self.failed.set,
        )  # fmt: skip
        self.net.nodes[self.node_id] = self
        self.quorum.start()

    async def die(self):
        del self.net.nodes[self.node_id]
        self.quorum.close()
        await asyncio.sleep(0.02)
        self.quorum.replica.close()
        self.quorum.replica.log.abandon()
        self.directories.release()

    def committed(self):
        """The bytes of the log below the high watermark."""
        return self.quorum.replica.read(0, self.quorum.high_watermark)

    def topics(self):
        return set(self.quorum.image.topics.by_name)


@pytest.fixture
async def members(tmp_path):
    """Three, started."""
    net = Net()
    with ThreadPoolExecutor(4) as threads:
        made = {node_id: Member(net, tmp_path, node_id, threads) for node_id in (1, 2, 3)}
        for member in made.values():
            member.start()
        yield made
        for member in list(net.nodes.values()):
            await member.die()


async def until(condition, seconds=10.0):
    """Look until ``condition`` gives something true; that."""
    end = asyncio.get_running_loop().time() + seconds
    while not (found := condition()):
        assert asyncio.get_running_loop().time() < end, "what was waited for did not happen"
        await asyncio.sleep(0.005)
    return found


async def active(members, *, but=()):
    """The one whose controller decides."""

    def find():
        return [
            one for one in members.values() if one not in but and one.node_id in one.net.nodes and one.quorum.is_active
        ]

    return (await until(find))[0]


def topic(name):
    return TopicRecord(name=name, topic_id=name.encode().ljust(16, b"."))


async def propose(member, *records):
    return await member.quorum.propose(records, epoch=member.quorum.active_epoch)


async def test_a_proposal_is_answered_when_it_is_applied_here_and_reaches_all(members):
    """Logs are equal byte for byte below the high watermark."""
    leader = await active(members)
    await propose(leader, FeatureLevelRecord(name="metadata.version", feature_level=30))
    offset = await propose(leader, topic("a"), topic("b"))
    assert leader.topics() == {"a", "b"}
    assert leader.quorum.image.provenance.offset >= offset
    await until(lambda: all(one.topics() == {"a", "b"} for one in members.values()))
    await until(lambda: len({one.committed() for one in members.values()}) == 1)
    status = leader.quorum.describe()
    assert [one.key.id for one in status.voters] == [1, 2, 3]


async def test_another_leads_when_the_leader_dies_and_a_return_finds_all(members):
    """Answered records are there; a later start goes on in a later epoch."""
    leader = await active(members)
    await propose(leader, FeatureLevelRecord(name="metadata.version", feature_level=30), topic("a"))
    epoch = leader.quorum.leader.epoch
    await leader.die()
    second = await active(members, but=(leader,))
    assert second.quorum.leader.epoch > epoch
    await propose(second, topic("b"))
    leader.start()
    await until(lambda: leader.topics() == {"a", "b"})
    await until(lambda: len({one.committed() for one in members.values()}) == 1)


async def test_a_leader_that_is_cut_off_commits_nothing_and_gives_up(members):
    """The proposal is NOT_CONTROLLER, its records go, and the others' stand."""
    leader = await active(members)
    await propose(leader, FeatureLevelRecord(name="metadata.version", feature_level=30), topic("a"))
    heard = []
    leader.quorum.on_leader_change(lambda _leader, is_active: heard.append(is_active))
    leader.net.cut.add(leader.node_id)
    lost = leader.quorum.propose((topic("lost"),), epoch=leader.quorum.active_epoch)
    with pytest.raises(KafkaError) as refused:
        await asyncio.wait_for(lost, 5)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert heard[0] is False
    second = await active(members, but=(leader,))
    await propose(second, topic("b"))
    leader.net.cut.clear()
    await until(lambda: leader.topics() == {"a", "b"})
    await until(lambda: len({one.committed() for one in members.values()}) == 1)
    with pytest.raises(KafkaError):
        await members[next(iter({1, 2, 3} - {(await active(members)).node_id}))].quorum.propose((), epoch=1)


async def test_a_stop_hands_the_leadership_over(members):
    """Another stands at once; a request that comes later has no answer."""
    leader = await active(members)
    begun = asyncio.get_running_loop().time()
    await leader.quorum.stop(timeout_ms=3000)
    second = await active(members, but=(leader,))
    assert second is not leader
    assert asyncio.get_running_loop().time() - begun < 3
    answer = leader.quorum.receive(None)
    assert answer.cancelled()


async def test_a_leader_that_will_stop_answers_what_it_has_written_and_follows_the_next(members):
    """No proposal is lost, none is left without an answer, and the image goes on here."""
    leader = await active(members)
    await propose(leader, FeatureLevelRecord(name="metadata.version", feature_level=30))
    written = leader.quorum.propose((topic("a"),), epoch=leader.quorum.active_epoch)
    over = asyncio.ensure_future(leader.quorum.hand_over(timeout_ms=3000))
    await asyncio.sleep(0)
    with pytest.raises(KafkaError) as refused:
        await propose(leader, topic("late"))
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    await written
    await over
    second = await active(members, but=(leader,))
    assert leader.quorum.leader.leader_id == second.node_id
    await propose(second, topic("b"))
    await until(lambda: leader.topics() == {"a", "b"})
    epoch = second.quorum.leader.epoch
    await leader.quorum.hand_over(timeout_ms=3000)  # it does not lead
    assert second.quorum.leader.epoch == epoch


async def test_a_replica_that_cannot_begin_anew_ends_the_node(members, monkeypatch):
    """Its log can be read no more; the others go on."""
    leader = await active(members)
    monkeypatch.setattr("stratalog.broker.quorum.beginning_anew._FIRST_SECONDS", 0.01)

    def damaged(_view):
        raise Corrupt("damaged")

    monkeypatch.setattr(leader.quorum, "_machine", damaged)
    leader.quorum._begin_anew(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room"))
    await asyncio.wait_for(leader.failed.wait(), 5)
    await active(members, but=(leader,))


async def test_a_leader_that_will_begin_anew_leads_no_more(members):
    """It describes no quorum, and a stop does not wait for its successor."""
    leader = await active(members)
    leader.quorum._begin_anew(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room"))
    with pytest.raises(KafkaError) as refused:
        leader.quorum.describe()
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await asyncio.wait_for(leader.quorum.hand_over(timeout_ms=60_000), 1)


async def test_a_replica_that_begins_anew_votes_and_follows_again(members, monkeypatch):
    """As after a restart."""
    leader = await active(members)
    await propose(leader, FeatureLevelRecord(name="metadata.version", feature_level=30), topic("a"))
    monkeypatch.setattr("stratalog.broker.quorum.beginning_anew._FIRST_SECONDS", 0.01)
    leader.quorum._begin_anew(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room"))
    assert not leader.quorum.is_active
    second = await active(members)
    await propose(second, topic("b"))
    await until(lambda: all(one.topics() == {"a", "b"} for one in members.values()))
    await until(lambda: len({one.committed() for one in members.values()}) == 1)


@pytest.mark.parametrize("leave", ["hand_over", "stop"])
async def test_a_replica_that_begins_anew_as_it_leaves_is_not_waited_for(members, leave):
    """The machine that was asked to give the leadership away is gone, and the next one does not know of it."""
    leader = await active(members)
    for other in members.values():
        if other is not leader:
            await other.die()
    leaving = asyncio.ensure_future(getattr(leader.quorum, leave)(timeout_ms=60_000))
    await asyncio.sleep(0.01)
    assert not leaving.done()
    leader.quorum._begin_anew(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room"))
    await asyncio.wait_for(leaving, 1)

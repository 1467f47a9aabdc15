"""Links of the quorum: addresses, links by purpose, and answers that cannot be used."""

import asyncio
import random

import pytest

from stratalog.broker.peers.peer_errors import Peer, PeerRefused, PeerTimeout, PeerUnsupported
from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.broker.quorum.obstacles import Obstacles
from stratalog.broker.quorum.quorum_links import QuorumLinks
from stratalog.broker.quorum.quorum_peers import NoAnswer
from stratalog.metadata.raft.actions import BOOTSTRAP
from stratalog.metadata.raft.messages import FetchRequest, VoteRequest
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, VoterSet
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_cluster import DescribeClusterResponse
from stratalog.wire.messages.fetch import FetchResponse
from stratalog.wire.messages.vote import VotePartitionResult, VoteResponse, VoteTopicResult

AT = (Endpoint("OTHER", "o", 1), Endpoint("CONTROLLER", "c", 2))
VOTE = VoteRequest(3, ReplicaKey(1), ReplicaKey(2), 1, 9, pre_vote=True)
FETCH = FetchRequest(3, ReplicaKey(1), 9, 1)


class Link:
    """Answers at once with what the test has set, or raises it."""

    def __init__(self, peer, answers):
        self.peer, self.answers, self.asked, self.closed = peer, answers, [], False

    def ask(self, message, *, timeout_ms, version_min=0):
        self.asked.append((message, timeout_ms, version_min))
        future = asyncio.get_running_loop().create_future()
        answer = self.answers[type(message).__name__]
        if isinstance(answer, asyncio.Future):
            return answer
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        return future

    def close(self):
        self.closed = True


@pytest.fixture
def made():
    """Links by address and number, and what they answer."""
    links, answers = [], {}

    def link_to(peer):
        links.append(Link(peer, answers))
        return links[-1]

    peers = QuorumLinks(
        link_to,
        listener="CONTROLLER",
        servers=[("s", 5)],
        cluster_id="c",
        timeout_ms=77,
        dice=random.Random(1),
        monotonic=lambda: 0.0,
        obstacles=Obstacles(ReplicaKey(1), "c", is_controller=True, now=-99.0),
    )
    return peers, links, answers


def vote(granted=True, topic="__cluster_metadata"):
    row = VotePartitionResult(partition_index=0, error_code=0, leader_id=-1, leader_epoch=3, vote_granted=granted)
    return VoteResponse(error_code=0, node_endpoints=[], topics=[VoteTopicResult(topic_name=topic, partitions=[row])])


async def test_a_node_is_asked_on_the_listener_of_controllers(made):
    """In a version that says what the request says: an old one would make a real vote of a pre-vote."""
    peers, links, answers = made
    answers["VoteRequest"] = vote()
    assert (await peers.ask(2, VOTE, AT)).granted
    assert links[0].peer == Peer(2, "c", 2)
    assert links[0].asked[0][1:] == (77, 2)


async def test_a_bootstrap_server_needs_no_address_of_its_own(made):
    """It is one of the settings'; without any, and for a node without an address, there is no answer."""
    peers, links, answers = made
    answers["FetchRequest"] = PeerTimeout(Peer(-1, "s", 5), "slow")
    with pytest.raises(NoAnswer, match="slow"):
        await peers.ask(BOOTSTRAP, FETCH, ())
    assert links[0].peer == Peer(BOOTSTRAP, "s", 5)
    with pytest.raises(NoAnswer, match="no address of node 4"):
        await peers.ask(4, VOTE, ())
    peers.servers.clear()
    with pytest.raises(NoAnswer, match="no address"):
        await peers.ask(BOOTSTRAP, FETCH, ())


async def asked(peers, links):
    """The host of the bootstrap server that is asked next."""
    before = {link: len(link.asked) for link in links}
    await asyncio.gather(peers.ask(BOOTSTRAP, FETCH, ()), return_exceptions=True)
    (found,) = [link.peer.host for link in links if len(link.asked) > before.get(link, 0)]
    return found


async def test_bootstrap_servers_are_asked_in_turn(made):
    """One that does not answer takes its whole time-out each time: it is not asked again before all others."""
    peers, links, answers = made
    peers.servers[:] = [("a", 5), ("b", 5), ("d", 5), ("e", 5)]
    answers["FetchRequest"] = PeerTimeout(Peer(-1, "s", 5), "slow")
    first = [await asked(peers, links) for _ in range(4)]
    assert sorted(first) == ["a", "b", "d", "e"]
    assert [await asked(peers, links) for _ in range(4)] == first


async def test_the_leader_that_does_not_answer_is_asked_last(made):
    """A server that owes an answer, or has given none, comes after all the others when a node looks for the next leader."""
    peers, links, answers = made
    peers.servers[:] = [("c", 2), ("b", 5), ("d", 5)]
    owed = answers["FetchRequest"] = asyncio.get_running_loop().create_future()
    fetch = asyncio.ensure_future(peers.ask(2, FETCH, AT))
    await asyncio.sleep(0)
    answers["FetchRequest"] = PeerTimeout(Peer(-1, "s", 5), "slow")
    assert [await asked(peers, links) for _ in range(2)] == ["b", "d"]
    assert peers.servers[0] == ("c", 2)
    owed.set_exception(PeerTimeout(Peer(2, "c", 2), "slow"))
    with pytest.raises(NoAnswer):
        await fetch
    assert [await asked(peers, links) for _ in range(3)] == ["b", "d", "c"]


def test_nodes_begin_with_different_servers(made):
    """A server that is named first everywhere has not all the brokers at once after an election."""
    peers, _, _ = made
    servers = [(name, 5) for name in "abcdef"]
    orders = {
        tuple(
            QuorumLinks(
                peers._link_to, listener="C", servers=servers, cluster_id="c", timeout_ms=1, dice=random.Random(seed),
                monotonic=lambda: 0.0, obstacles=peers._obstacles,
            ).servers
        )
        for seed in range(5)
    }  # fmt: skip
    assert len(orders) > 1
    assert {tuple(sorted(each)) for each in orders} == {tuple(servers)}


async def test_fetches_have_links_of_their_own_and_a_node_that_moved_has_new_ones(made):
    """A vote does not wait behind a fetch that waits for news."""
    peers, links, answers = made
    answers |= {"VoteRequest": vote(), "FetchRequest": PeerTimeout(Peer(2, "c", 2), "slow")}
    await peers.ask(2, VOTE, AT)
    with pytest.raises(NoAnswer):
        await peers.ask(2, FETCH, AT)
    await peers.ask(2, VOTE, AT)
    assert [len(link.asked) for link in links] == [2, 1]
    await peers.ask(2, VOTE, (Endpoint("CONTROLLER", "c", 3),))
    assert [link.closed for link in links] == [True, True, False]
    peers.close()
    assert all(link.closed for link in links)


@pytest.mark.parametrize(
    ("answer", "code", "is_refused"),
    [
        (PeerUnsupported(Peer(2, "c", 2), "old"), ErrorCode.UNSUPPORTED_VERSION, False),
        (vote(topic="other"), ErrorCode.UNKNOWN_SERVER_ERROR, False),
        (PeerTimeout(Peer(2, "c", 2), "slow"), ErrorCode.REQUEST_TIMED_OUT, False),
        (PeerRefused(Peer(2, "c", 2), "gone"), ErrorCode.REQUEST_TIMED_OUT, True),
    ],
)
async def test_an_answer_that_cannot_be_used_is_none(made, answer, code, is_refused):
    """The machine hears which: an old node makes it stand without pre-votes, one that is gone at once."""
    peers, _, answers = made
    answers["VoteRequest"] = answer
    with pytest.raises(NoAnswer) as refused:
        await peers.ask(2, VOTE, AT)
    assert (refused.value.code, refused.value.refused) == (code, is_refused)


async def test_damaged_records_are_no_answer(made):
    """They are asked for again."""
    peers, _, answers = made
    answers["FetchRequest"] = FetchResponse(error_code=0, responses=[])
    with pytest.raises(NoAnswer):
        await peers.ask(2, FETCH, AT)


@pytest.mark.parametrize("tells", [True, False])
async def test_a_server_of_another_cluster_is_named_once_with_both_ids(made, caplog, tells):
    """Its refusal has no id, so it is asked for it; one that does not tell is another cluster all the same."""
    peers, links, answers = made
    answers["FetchRequest"] = FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, responses=[])
    told = DescribeClusterResponse(cluster_id="theirs", brokers=[], error_code=0)
    answers["DescribeClusterRequest"] = told if tells else PeerUnsupported(Peer(-1, "s", 5), "old")
    for _ in range(5):
        assert (await peers.ask(BOOTSTRAP, FETCH, ())).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    await asyncio.gather(*peers._asking)
    (said,) = [one.getMessage() for one in caplog.records]
    whose = "cluster theirs" if tells else "another cluster"
    assert said.startswith(
        f"bootstrap server s:5 belongs to {whose}, and this node to cluster c, as meta.properties says"
    )
    assert len(links) == 1


async def test_the_lack_of_a_leader_is_said_with_what_each_server_answered(made, caplog):
    """And no more after the links are closed."""

    class Quorum:
        leader = LeaderAndEpoch(epoch=3)
        voters = VoterSet()

    peers, _, answers = made
    answers["FetchRequest"] = PeerTimeout(Peer(-1, "s", 5), "slow")
    with pytest.raises(NoAnswer):
        await peers.ask(BOOTSTRAP, FETCH, ())
    peers.watch(Quorum())
    (said,) = [one.getMessage() for one in caplog.records]
    assert "in epoch 3. Last answers: bootstrap server s:5 does not answer (slow)" in said
    peers.close()
    assert peers._looks.cancelled()

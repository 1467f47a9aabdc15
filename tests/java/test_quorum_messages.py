"""The quorum's messages and batches before Kafka: its controller answers our requests in every version, its log is ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stratalog.broker.peers.dialer import TcpDialer
from stratalog.broker.peers.peer_errors import Peer
from stratalog.broker.peers.peer_link import PeerLink
from stratalog.broker.quorum.batches import control_batch, data_batch, parse_batches
from stratalog.broker.quorum.wire.messages import answer_from_wire, oldest_version, request_to_wire
from stratalog.broker.runtime.clock import SystemClock
from stratalog.metadata.raft import messages as raft
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter
from stratalog.wire.batch import iter_records, read_header
from stratalog.wire.errors import ErrorCode
from tests.java.kafka_server import KafkaServer, free_port

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
PROPERTIES = """\
process.roles=controller
node.id=1
listeners=CONTROLLER://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{port}
log.dirs={data}
"""
ME = ReplicaKey(9, b"a foreign node 9")
LEADER = ReplicaKey(1)
NONE = ErrorCode.NONE


class Controller:
    """Kafka as the only controller, and our way to ask it."""

    def __init__(self, kafka, folder: Path) -> None:
        self.port, self.data = free_port(), folder / "data"
        config = folder / "server.properties"
        config.write_text(PROPERTIES.format(port=self.port, data=self.data))
        kafka.run("kafka.tools.StorageTool", "format", "-c", str(config), "-t", CLUSTER, "--standalone").ok()
        command = kafka.command("kafka.Kafka", str(config))
        command.insert(1, "-Djudge.log.level=info")
        self.server = KafkaServer(command, folder, f"127.0.0.1:{self.port}")

    def ask(self, *asked: tuple[raft.Request, int]) -> list[raft.Answer]:
        """The answers to requests, each in one version."""

        async def run() -> list[raft.Answer]:
            clock = SystemClock()
            with ThreadPoolExecutor(1) as executor:
                link = PeerLink(
                    Peer(1, "127.0.0.1", self.port),
                    dialer=TcpDialer(executor),
                    executor=executor,
                    monotonic=clock.monotonic,
                    draw=lambda: 0.5,
                    client_id="a foreign node",
                )
                try:
                    return [
                        answer_from_wire(
                            request,
                            await link.ask(
                                request_to_wire(request, cluster_id=CLUSTER), timeout_ms=20_000, version=version
                            ),
                            "CONTROLLER",
                        )
                        for request, version in asked
                    ]
                finally:
                    link.close()
                    await link.wait_closed()

        return asyncio.run(run())

    def in_all_versions(self, request: raft.Request) -> list[raft.Answer]:
        """The answers to one request, from the oldest version to the newest."""
        last = request_to_wire(request).versions[1]
        return self.ask(*((request, version) for version in range(oldest_version(request), last + 1)))


@pytest.fixture(scope="module")
def controller(kafka, tmp_path_factory) -> Iterator[Controller]:
    """It leads in epoch 1."""
    started = Controller(kafka, tmp_path_factory.mktemp("controller"))
    try:
        started.server.wait()
        yield started
    finally:
        started.server.stop()


def at(controller: Controller) -> tuple[Endpoint, ...]:
    return (Endpoint("CONTROLLER", "127.0.0.1", controller.port),)


def test_kafka_names_its_leader_to_a_newcomer(controller):
    """A fetch in epoch 0 is refused in every version; the address comes from version 17 on."""
    answers = controller.in_all_versions(raft.FetchRequest(0, ME, 0, 0))
    assert [(one.error, one.epoch, one.leader_id) for one in answers] == [(ErrorCode.FENCED_LEADER_EPOCH, 1, 1)] * 6
    assert [one.endpoints for one in answers] == [()] * 4 + [at(controller)] * 2


def test_we_read_the_log_of_kafka_and_write_the_same_bytes(controller):
    """The first batch has the leader, the level and the voters; the others have records of its controller."""
    for answer in controller.in_all_versions(raft.FetchRequest(1, ME, 0, 0)):
        assert (answer.error, answer.epoch, answer.leader_id) == (NONE, 1, 1)
        assert 0 < answer.high_watermark <= answer.batches[-1].end_offset
        first, *others = answer.batches
        leader, level, voters = first.control
        assert (leader.leader_id, level.level) == (1, 1)
        assert [voter.endpoints for voter in voters.voters] == [at(controller)]
        assert all(not batch.control for batch in others)
        for batch in answer.batches:
            stamp = read_header(batch.data).base_timestamp
            if batch.control:
                again = control_batch(batch, timestamp_ms=stamp)
            else:
                values = [record.value for record in iter_records(batch.data)]
                again = data_batch(values, base_offset=batch.base_offset, epoch=batch.epoch, timestamp_ms=stamp)
            assert again == bytes(batch.data)


def test_kafka_says_where_our_log_parts_from_its_own(controller):
    """An offset behind its end, and an epoch that it has never had."""
    behind, before = controller.ask((raft.FetchRequest(1, ME, 1 << 40, 1), 18), (raft.FetchRequest(1, ME, 5, 0), 18))
    assert behind.diverging is not None
    assert behind.diverging.epoch == 1
    assert before.diverging == raft.OffsetAndEpoch(0, 0)


def test_a_snapshot_that_kafka_does_not_have_is_an_error_of_the_whole(controller):
    """Kafka 4.3 cannot encode its answer about the partition."""
    request = raft.FetchSnapshotRequest(1, ME, raft.OffsetAndEpoch(5, 1), 0)
    for answer in controller.in_all_versions(request):
        assert (answer.error, answer.epoch) == (ErrorCode.UNKNOWN_SERVER_ERROR, 1)


def test_kafka_answers_votes_and_epochs(controller):
    """A leader grants nothing; older epochs are fenced; another disk is not the one that was meant."""
    for pre_vote in (False, True):
        for answer in controller.in_all_versions(raft.VoteRequest(1, ME, LEADER, 0, 0, pre_vote=pre_vote)):
            assert (answer.error, answer.epoch, answer.leader_id, answer.granted) == (NONE, 1, 1, False)
    other_disk = raft.VoteRequest(1, ME, LEADER._replace(directory_id=b"x" * 16), 0, 0)
    refused = [one.error for one in controller.in_all_versions(other_disk)]
    assert refused == [NONE, ErrorCode.INVALID_VOTER_KEY, ErrorCode.INVALID_VOTER_KEY]
    for request in (
        raft.BeginQuorumEpochRequest(0, 9, LEADER, at(controller)),
        raft.EndQuorumEpochRequest(0, 9, (ME,)),
    ):
        answers = controller.in_all_versions(request)
        assert [one.error for one in answers] == [ErrorCode.FENCED_LEADER_EPOCH] * 2
        assert [one.endpoints for one in answers] == [(), at(controller)]


def test_kafka_answers_changes_of_voters(controller):
    """Each is refused for the reason that it has."""
    other = Voter(LEADER._replace(directory_id=b"x" * 16), at(controller))
    twice = raft.AddVoterRequest(other)
    unreachable = raft.AddVoterRequest(Voter(ME, (Endpoint("OTHER", "127.0.0.1", 1),)))
    for request, error in ((twice, ErrorCode.DUPLICATE_VOTER), (unreachable, ErrorCode.INVALID_REQUEST)):
        assert [one.error for one in controller.in_all_versions(request)] == [error] * 2
    (removal,) = controller.in_all_versions(raft.RemoveVoterRequest(ME))
    assert removal.error is ErrorCode.VOTER_NOT_FOUND
    (update,) = controller.in_all_versions(raft.UpdateVoterRequest(1, Voter(ME, at(controller))))
    assert update == raft.VoterChangeAnswer(ErrorCode.VOTER_NOT_FOUND, "", 1, 1, at(controller))


def test_kafka_knows_its_own_cluster_only(controller):
    """The error is one of the whole request, in the epoch that we asked in."""
    for request in (
        raft.VoteRequest(1, ME, LEADER, 0, 0, cluster_id="another"),
        raft.FetchRequest(1, ME, 0, 0, cluster_id="another"),
        raft.FetchSnapshotRequest(1, ME, raft.OffsetAndEpoch(5, 1), 0, cluster_id="another"),
    ):
        for answer in controller.in_all_versions(request):
            assert (answer.error, answer.epoch) == (ErrorCode.INCONSISTENT_CLUSTER_ID, 1)


def test_kafka_says_what_it_can_run(controller):
    """The levels of ``kraft.version``, from version 4 on, which shows features that begin at 0."""
    answers = controller.ask((raft.ApiVersionsRequest(), 4))
    assert answers == [raft.ApiVersionsAnswer(NONE, (0, 1))]


def test_kafka_reads_a_log_that_we_have_written(kafka, controller, tmp_path):
    """Its dump decodes our control records, and finds each batch whole."""
    (answer,) = controller.ask((raft.FetchRequest(1, ME, 0, 0), 18))
    voters = answer.batches[0].control[2]
    log = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    log.parent.mkdir()
    first = (raft.LeaderChange(1, (LEADER, ME), (LEADER,)), raft.KRaftVersion(1), voters)
    log.write_bytes(
        control_batch(raft.Batch(0, 3, 4, first), timestamp_ms=1_700_000_000_000)
        + control_batch(raft.Batch(3, 4, 5, (raft.LeaderChange(9, (), ()),)), timestamp_ms=1_700_000_000_001)
    )
    assert len(parse_batches(log.read_bytes())) == 2
    dump = kafka.dump([log], "--cluster-metadata-decoder", "--print-data-log").clean()
    assert dump.batches == [(0, 2, 3, "none"), (3, 3, 1, "none")]
    assert 'LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1},{"voterId":9}]' in dump.text
    assert 'KRaftVersion {"version":0,"kRaftVersion":1}' in dump.text
    assert f'"endpoints":[{{"name":"CONTROLLER","host":"127.0.0.1","port":{controller.port}}}]' in dump.text

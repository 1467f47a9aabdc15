"""Kafka 4.3.1 and this broker get the same requests, over all APIs and versions; what they answer is equal.

Each difference that stays is listed by name, with its reason, in `differ/wanted.py`: one that is not listed fails the
story in which it shows, and one that no longer shows fails, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.wire.batch import Record, iter_headers, iter_records
from stratalog.wire.primitives import read_unsigned_varint
from stratalog.wire.records import group, metadata, transaction
from tests.java.differ.compare import Comparison, Difference
from tests.java.differ.side import Side
from tests.java.differ.story import Ask, Wanted
from tests.java.differ.tables import STORIES
from tests.java.differ.wanted import WANTED
from tests.java.kafka_server import KafkaServer, free_port

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

REQUESTS_MIN = 1400
SETTINGS = {
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
FEATURES_ABSENT = ("share.version", "streams.version")
"""Features that this broker lacks are switched off in Kafka, so that the rest can be compared."""
KAFKA_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}


@pytest.fixture(scope="module")
def kafka_server(kafka, tmp_path_factory) -> Iterator[tuple[str, str]]:
    """Kafka on a new directory: its address and its log directory."""
    directory = tmp_path_factory.mktemp("kafka")
    data = directory / "data"
    port, controller_port = free_port(), free_port()
    properties = directory / "server.properties"
    settings = {
        **KAFKA_SETTINGS,
        **SETTINGS,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "log.dirs": str(data),
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    absent = [word for name in FEATURES_ABSENT for word in ("--feature", f"{name}=0")]
    kafka.run("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties), *absent).ok()
    command = kafka.command("kafka.Kafka", str(properties))
    command.insert(1, "-Djudge.log.level=info")
    server = KafkaServer(command, directory, f"127.0.0.1:{port}")
    try:
        server.wait()
        yield server.address, str(data)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def comparison(kafka_server, serve) -> Iterator[Comparison]:
    """Both brokers after all stories."""
    ours = serve(*(f"{name}={value}" for name, value in SETTINGS.items()))
    compared = Comparison(Side(*kafka_server), Side(ours.address, str(ours.data.resolve())))
    try:
        for key_type in (0, 1):
            wait_for_coordinator(compared, key_type)
        for story in STORIES:
            compared.tell(story)
        sys.stdout.write(f"{sum(compared.asked.values()) + compared.raw_count} requests\n")
        yield compared
    finally:
        compared.kafka.close()
        compared.ours.close()


def wait_for_coordinator(compared: Comparison, key_type: int) -> None:
    """Make the coordinator's topic and wait until both brokers have loaded it."""
    find = Ask("FindCoordinator", {"key_type": key_type, "coordinator_keys": ["a"]}, keep={"found": "coordinators"})
    fetch = Ask("OffsetFetch", {"groups": [{"group_id": "a", "topics": None}]}, keep={"found": "groups"})
    begin = Ask(
        "InitProducerId", {"transactional_id": "warm", "transaction_timeout_ms": 1000}, keep={"code": "error_code"}
    )
    for side in (compared.kafka, compared.ours):
        for _ in range(2000):
            side.ask(find, 4, str)
            if not side.known["found"][0].error_code:
                break
        for _ in range(2000):
            side.ask(begin, 4, str) if key_type else side.ask(fetch, 8, str)
            if not (side.known["code"] if key_type else side.known["found"][0].error_code):
                break
        else:
            raise AssertionError(f"the coordinator of keys {key_type} does not come")


def unlisted(differences: list[Difference]) -> list[Difference]:
    return [found for found in differences if not any(explains(one, found) for one in WANTED)]


def explains(wanted: Wanted, found: Difference) -> bool:
    return wanted.explains(found.story, found.path, found.kafka, found.ours)


def shown(differences: list[Difference]) -> str:
    """Equal differences of several versions in one place."""
    versions: dict[tuple[str, str, str], list[int]] = {}
    for found in differences:
        texts = (found.path, repr(found.kafka), repr(found.ours))
        path, kafka, ours = (text.replace(f"-{found.version}", "-{v}") for text in texts)
        versions.setdefault((path, kafka, ours), []).append(found.version)
    return "\n".join(
        f"{path}  (v{', v'.join(map(str, sorted(set(seen))))})\n    Kafka {kafka}\n    ours  {ours}"
        for (path, kafka, ours), seen in versions.items()
    )


@pytest.mark.parametrize("name", [story.name for story in STORIES])
def test_both_answer_alike(comparison, name) -> None:
    """Field by field, but for the differences that are listed."""
    found = unlisted([each for each in comparison.differences if each.story == name])
    if found:
        pytest.fail(f"{name}: differences that are not listed\n{shown(found)}", pytrace=False)


@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: wanted.name)
def test_a_wanted_difference_still_shows(comparison, wanted) -> None:
    """One that has gone leaves the list."""
    assert any(explains(wanted, found) for found in comparison.differences)


def test_every_api_is_asked_in_every_version(comparison) -> None:
    """The comparison covers every version that both brokers announce."""
    missing = [
        (api, version)
        for api in sorted(comparison.kafka.ranges.keys() & comparison.ours.ranges.keys())
        for version in comparison.versions(api)
        if (api, version) not in comparison.asked
    ]
    assert missing == []


def test_a_node_of_its_own_announces_all_but_changes_of_its_voters(comparison) -> None:
    """It is the only voter, named by its settings; Kafka's answers these requests with an error."""
    assert comparison.kafka.ranges.keys() - comparison.ours.ranges.keys() == {"AddRaftVoter", "RemoveRaftVoter"}
    assert comparison.ours.ranges.keys() - comparison.kafka.ranges.keys() == set()


def test_stories_are_many(comparison) -> None:
    """Fewer requests than this would judge less than was judged before."""
    assert sum(comparison.asked.values()) + comparison.raw_count >= REQUESTS_MIN


def test_names_are_given_once() -> None:
    """A difference is found again by its name, a story too."""
    for names in ([story.name for story in STORIES], [wanted.name for wanted in WANTED]):
        assert len(names) == len(set(names))


def records_of(directory: Path) -> Iterator[Record]:
    """Every record in the segments of a partition, but for control records."""
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for position, header in iter_headers(data):
            if not header.is_control:
                yield from iter_records(data, position)


def test_records_of_kafkas_group_coordinator_are_understood(comparison, kafka_server) -> None:
    """Decoded and encoded again in its version, each value is the same bytes."""
    kinds = set()
    for record in records_of(Path(kafka_server[1], "__consumer_offsets-0")):
        key = group.decode_key(record.key)
        kinds.add(type(key).__name__)
        if key is not None and record.value is not None:
            version = int.from_bytes(record.value[:2], "big")
            assert group.encode_value(group.decode_value(key, record.value), version) == record.value, key
    assert {"OffsetCommitKey", "GroupMetadataKey", "ConsumerGroupMemberMetadataKey"} <= kinds


def test_records_of_kafkas_transaction_coordinator_are_understood(comparison, kafka_server) -> None:
    """Decoded and encoded again in its version, each value is the same bytes."""
    count = 0
    for record in records_of(Path(kafka_server[1], "__transaction_state-0")):
        if record.value is not None:
            version = int.from_bytes(record.value[:2], "big")
            assert transaction.encode_value(transaction.decode_value(record.value), version) == record.value
            count += 1
    assert count > 50


def test_records_of_kafkas_controller_are_understood(comparison, kafka_server) -> None:
    """Decoded and encoded again in its version, each value is the same bytes."""
    kinds = set()
    for record in records_of(Path(kafka_server[1], "__cluster_metadata-0")):
        _, position = read_unsigned_varint(record.value, 0)
        _, position = read_unsigned_varint(record.value, position)
        version, _ = read_unsigned_varint(record.value, position)
        found = metadata.decode_record(record.value)
        assert metadata.encode_record(found, version) == record.value, found
        kinds.add(type(found).__name__)
    assert {"TopicRecord", "PartitionRecord", "ConfigRecord", "AccessControlEntryRecord", "ClientQuotaRecord"} <= kinds

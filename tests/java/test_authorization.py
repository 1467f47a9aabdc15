"""Rights: every API and version beside Kafka itself, under the same rules.

Rules go by address here, since neither broker knows more of a client than that it is anonymous. The test compares
error codes, names, and the rights that answers give a caller; not messages.
"""

from __future__ import annotations

import importlib.util
import itertools
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stratalog.broker.api import BROKER_APIS
from stratalog.client.link import BrokerLink, BrokerUnavailable
from stratalog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from stratalog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from stratalog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from stratalog.wire.messages.describe_acls import DescribeAclsRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.messages.metadata import MetadataRequest
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratalog.wire.schema import Message


def beside(name: str) -> Any:
    """A module of this folder."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


asks = beside("authorization_requests")
REQUESTS = asks.REQUESTS | beside("authorization_requests_of_clusters").REQUESTS
ABSENT, GROUP, SECRET, TRANSACTION = asks.ABSENT, asks.GROUP, asks.SECRET, asks.TRANSACTION
Ids = dict[str, bytes]

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

ADMIN, CALLER = "127.0.0.2", "127.0.0.3"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {
    "authorizer.class.name": AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",  # until the first rules are there; then there are some for every resource
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
TOPIC, GROUPS, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL = 2
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(
    3, 13
)
TWO_PHASE_COMMIT = 15
NAMES = {TOPIC: (SECRET, ABSENT), GROUPS: (GROUP,), CLUSTER: ("kafka-cluster",), TRANSACTIONAL_ID: (TRANSACTION,)}
OPERATIONS = {
    TOPIC: (READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS),
    GROUPS: (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS),
    CLUSTER: (CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE),
    TRANSACTIONAL_ID: (DESCRIBE, WRITE, TWO_PHASE_COMMIT),
}
TOGETHER = [
    ((GROUPS, READ), (TOPIC, READ)),
    ((GROUPS, DELETE), (TOPIC, READ)),
    ((GROUPS, DESCRIBE), (TOPIC, DESCRIBE)),
    ((CLUSTER, CREATE), (TOPIC, DESCRIBE)),
    ((TOPIC, CREATE), (TOPIC, DESCRIBE_CONFIGS)),
    ((TRANSACTIONAL_ID, WRITE), (TOPIC, WRITE)),
    ((TRANSACTIONAL_ID, WRITE), (GROUPS, READ)),
    ((TRANSACTIONAL_ID, WRITE), (GROUPS, READ), (TOPIC, READ)),
]


def rule(
    kind: int, name: str, operation: int, permission: int = ALLOW, pattern: int = LITERAL, host: str = CALLER
) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal="User:ANONYMOUS",
        host=host,
        operation=operation,
        permission_type=permission,
    )


def literal(*meant: tuple[int, int]) -> list[AclCreation]:
    """Permissions for operations on each of the names."""
    return [rule(kind, name, operation) for kind, operation in meant for name in NAMES[kind]]


EVERYTHING = [(kind, ALL) for kind in NAMES]
EVERY_STAR = [rule(kind, "kafka-cluster" if kind == CLUSTER else "*", ALL) for kind in NAMES]
DENIED = [rule(kind, name, ALL, DENY) for kind in NAMES for name in NAMES[kind]]
PREFIX = [rule(kind, "app-", ALL, pattern=PREFIXED) for kind in NAMES if kind != CLUSTER] + literal((CLUSTER, ALL))
STATES: dict[str, list[AclCreation]] = {
    "no rule": [],
    "denied": DENIED,
    "allowed and denied": [*EVERY_STAR, *DENIED],
    "allowed to another address": [rule(kind, name, ALL, host="127.0.0.9") for kind in NAMES for name in NAMES[kind]],
    "allowed by name": literal(*EVERYTHING),
    "allowed by prefix": PREFIX,
    "allowed by star": EVERY_STAR,
    "denied by prefix": [*literal(*EVERYTHING), rule(TOPIC, "app-", ALL, DENY, PREFIXED)],
}
"""These are tried in every version of every API; single permissions in the newest."""
SINGLE = {
    f"{kind}:{operation}": literal((kind, operation)) for kind, every in OPERATIONS.items() for operation in every
}
PAIRS = {" ".join(f"{kind}:{operation}" for kind, operation in meant): literal(*meant) for meant in TOGETHER}


class Judged:
    """A broker, ours or Kafka's, seen from two addresses."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._links: dict[str, BrokerLink] = {}
        self.admin([*EVERY_STAR_OF(ADMIN), rule(CLUSTER, "kafka-cluster", ALL, host="127.0.0.1")])
        self.reset()

    def call(self, source: str, request: Message, version: int | None = None) -> Any:
        """Ask from one of the addresses."""
        link = self._links.get(source)
        if link is None:
            connect = partial(socket.create_connection, source_address=(source, 0))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(socket, "create_connection", connect)
                link = self._links[source] = BrokerLink(*self._address)
        try:
            return link.call(request, version)
        except BrokerUnavailable:
            self._links.pop(source).close()
            return None

    def close(self) -> None:
        """Close the connections."""
        for link in self._links.values():
            link.close()

    def admin(self, rules: Iterable[AclCreation]) -> None:
        """Add rules."""
        results = self.call(ADMIN, CreateAclsRequest(creations=list(rules))).results
        assert [each.error_message for each in results if each.error_code] == []

    def under(self, rules: list[AclCreation]) -> None:
        """Let exactly these rules hold for others than the administrator."""
        for host in (CALLER, "127.0.0.9"):
            everything = DeleteAclsFilter(
                resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
                host_filter=host, operation=1, permission_type=1,
            )  # fmt: skip
            self.call(ADMIN, DeleteAclsRequest(filters=[everything]))
        self.admin(rules)
        question = DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
            host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        wait(lambda: count(self.call(ADMIN, question)) == len({repr(each) for each in rules}) + len(NAMES) + 1)
        time.sleep(0.05)  # Kafka's controller learns of them at about the same time, and cannot be asked

    def reset(self) -> Ids:
        """Topics, a group and no more; the ids of the topics by name."""
        while True:
            topics = {topic.name: topic.topic_id for topic in self.call(ADMIN, MetadataRequest(topics=None)).topics}
            unwanted = [name for name in topics if name.startswith("app-") and name != SECRET]
            for name in unwanted:
                self.call(ADMIN, DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=9000))
            if SECRET not in topics:
                wanted = CreatableTopic(name=SECRET, num_partitions=1, replication_factor=1, assignments=[], configs=[])
                self.call(ADMIN, CreateTopicsRequest(topics=[wanted], timeout_ms=9000))
            elif not unwanted:
                break
            time.sleep(0.1)
        for key, kind in ((GROUP, 0), (TRANSACTION, 1)):
            find = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            wait(lambda find=find: self.call(ADMIN, find, 6).coordinators[0].error_code == 0)
        for name in (None, TRANSACTION):
            identity = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=9000)
            wait(lambda identity=identity: self.call(ADMIN, identity, 4).error_code == 0)
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
        commit = OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=-1, member_id="",
            topics=[OffsetCommitRequestTopic(name=SECRET, partitions=[part])],
        )  # fmt: skip
        wait(lambda: self.call(ADMIN, commit, 9).topics[0].partitions[0].error_code == 0)
        return topics


def EVERY_STAR_OF(host: str) -> list[AclCreation]:  # noqa: N802 - beside the constant
    """Everything allowed to one address."""
    return [rule(one.resource_type, one.resource_name, ALL, host=host) for one in EVERY_STAR]


def count(described: Any) -> int:
    return sum(len(resource.acls) for resource in described.resources)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait(ask: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not ask():
        assert time.monotonic() < end, "it did not happen within a minute"
        time.sleep(0.05)


NAMED = {"name", "topic", "topic_name", "group_id", "transactional_id", "resource_name", "user", "feature", "key"}


def shape(value: Any, ids: Ids, name: str = "") -> Any:
    """The compared part of an answer: codes, names, permissions; of settings, whether there are any."""
    if hasattr(value, "fields_declared"):
        found = {spec.name: shape(getattr(value, spec.name), ids, spec.name) for spec in value.fields_declared}
        return {each: told for each, told in found.items() if told is not None and told != []}
    if name in {"configs", "brokers", "api_keys", "log_dirs", "endpoints", "listeners"} or name.endswith("features"):
        return bool(value)
    if isinstance(value, list):
        return sorted((told for each in value if (told := shape(each, ids)) not in (None, {})), key=repr)
    if name == "topic_id":
        known = {topic_id: known for known, topic_id in ids.items()}
        return known.get(bytes(value), "none" if not any(value) else "unknown")
    compared = name in NAMED or name.endswith(("error_code", "authorized_operations"))
    return int(value) if compared and isinstance(value, int) else value if compared else None


@pytest.fixture(scope="module")
def ours(serve) -> Iterator[Judged]:
    broker = Judged(serve(*(f"{name}={value}" for name, value in SETTINGS.items())).address)
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def theirs(kafka, tmp_path_factory) -> Iterator[Judged]:
    """Kafka, formatted and started in a directory of its own."""
    directory: Path = tmp_path_factory.mktemp("kafka")
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        port, controller = one.getsockname()[1], other.getsockname()[1]
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
    properties = directory / "server.properties"
    settings = {
        **PROPERTIES, **SETTINGS, "listeners": listeners, "advertised.listeners": listeners,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}", "log.dirs": str(directory / "data"),
    }  # fmt: skip
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    cluster = "AAAAAAAAAAAAAAAAAAAAAQ"
    kafka.run("kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", str(properties)).ok()
    server = kafka.start(directory / "said", "kafka.Kafka", str(properties))
    try:
        wait(lambda: server.alive() and is_open(port))
        broker = Judged(f"127.0.0.1:{port}")
        yield broker
        broker.close()
    finally:
        server.kill()


def asked(broker: Judged, rules: list[AclCreation], *, every_version: bool) -> dict[tuple[str, int, int], Any]:
    """The shape of every answer under some rules, by API, version and number of the request."""
    broker.under(rules)
    ids = broker.reset()
    told = {}
    for api in BROKER_APIS:
        versions = range(api.versions[0], api.versions[1] + 1) if every_version else (api.versions[1],)
        for version, (number, make) in itertools.product(versions, enumerate(REQUESTS.get(api.key, ()))):
            request = make(version, ids)
            if request is not None:
                answer = broker.call(CALLER, request, version)
                told[api.name, version, number] = "closed" if answer is None else shape(answer, ids)
    return told


def differences(
    ours: Judged, theirs: Judged, state: str, rules: list[AclCreation], *, every_version: bool
) -> list[str]:
    """Where the two differ."""
    mine = asked(ours, rules, every_version=every_version)
    kafkas = asked(theirs, rules, every_version=every_version)
    return [
        f"{state}: {api} v{version} request {number}:\n  ours  {mine[api, version, number]}\n  Kafka {told}"
        for (api, version, number), told in kafkas.items()
        if mine[api, version, number] != told
    ]


def test_every_api_has_a_request():
    """But for the three that are asked before anybody is known."""
    assert {api.key for api in BROKER_APIS} - set(REQUESTS) == {17, 18, 36}


@pytest.mark.parametrize("state", STATES)
def test_every_version_answers_as_kafka_does(ours, theirs, state):
    """Without rules, with denials, with permissions of each kind."""
    found = differences(ours, theirs, state, STATES[state], every_version=True)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind", NAMES)
def test_single_permissions_come_to_the_same(ours, theirs, kind):
    """One operation at a time on one type of resource."""
    states = {name: rules for name, rules in SINGLE.items() if name.startswith(f"{kind}:")}
    found = [
        each for name, rules in states.items() for each in differences(ours, theirs, name, rules, every_version=False)
    ]
    assert not found, "\n".join(found)


def test_permissions_that_are_needed_together_come_to_the_same(ours, theirs):
    """Rights on a group and a topic, and on a transaction and its parts."""
    found = [
        each for name, rules in PAIRS.items() for each in differences(ours, theirs, name, rules, every_version=False)
    ]
    assert not found, "\n".join(found)

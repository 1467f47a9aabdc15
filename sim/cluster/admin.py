"""An administrator: creates, changes and deletes topics through any broker, and asks for producer ids.

Brokers repeat a command to the controller until it is answered. So a command may be refused because it was carried out
before: the state that it wanted is the fact either way.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from sim.actors.link import Caller, LinkLost
from sim.cluster.facts import SETTING, TopicFacts
from sim.cluster.surroundings import Surroundings
from sim.model import Violation
from stratalog.metadata.image.configs_image import ResourceType
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from stratalog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stratalog.wire.messages.init_producer_id import InitProducerIdRequest
from stratalog.wire.schema import Message
from stratalog.wire.topic import ZERO_UUID

__all__ = ["Admin"]

_TIMEOUT_MS: Final = 8000
_PATIENCE_SECONDS: Final = 15.0
_CREATE_KEY: Final = 19
_CREATE_WITH_IDS: Final = 7
_UNKNOWN: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""The command may have been carried out, or may be later."""


class Admin:
    """Works until it is cancelled. Two administrators never use one name."""

    def __init__(self, world: Surroundings, name: str, dice: random.Random) -> None:
        self.world = world
        self.name = name
        self.dice = dice
        self._callers: dict[int, Caller] = {}
        self._made = 0
        self._asked = 0

    async def run(self) -> None:
        """One command after the other."""
        kinds: list[Callable[[], Awaitable[None]]] = [
            self.create, self.create, self.create_wrongly, self.delete, self.grow, self.configure, self.configure_wrongly,
            self.get_producer_id, self.get_producer_id,
        ]  # fmt: skip
        while True:
            await asyncio.sleep(self.dice.uniform(0.01, self.world.plan.pause_every))
            await self.dice.choice(kinds)()

    async def _call(self, request: Message) -> Any:
        """The answer to a request through any broker that runs; None if there is none."""
        running = [one.id for one in self.world.members.values() if one.is_ready and not one.is_controller]
        if not running:
            return None
        node_id = self.dice.choice(running)
        caller = self._callers.get(node_id)
        if caller is None:
            port = self.world.members[node_id].port
            caller = Caller(self.world.loop, f"{self.name}-{node_id}", port, random.Random(self.dice.getrandbits(64)))
            caller.version_floors = {_CREATE_KEY: _CREATE_WITH_IDS}
            self._callers[node_id] = caller
        try:
            return await caller.call(request, _PATIENCE_SECONDS)
        except LinkLost:
            return None

    def _outcome(self, code: int | None, wanted: frozenset[ErrorCode], what: str) -> ErrorCode | None:
        """The error, if the outcome is known. Raises `Violation` for an error that nothing explains."""
        error = ErrorCode.REQUEST_TIMED_OUT if code is None else ErrorCode(code)
        self.world.trace.note(self.name, f"{what}: {'no answer' if code is None else error.name}")
        if error in _UNKNOWN:
            self.world.facts.unknown += 1
            return None
        if error not in wanted:
            raise Violation(f"{self.name}: {what} is answered with {error.name}")
        self.world.facts.answered += 1
        return error

    def _topic(self, *, exists: bool) -> TopicFacts | None:
        """Choose a topic of this administrator that is known to exist, or known not to."""
        mine: list[TopicFacts] = [
            one for one in self.world.facts.topics.values() if one.exists is exists and one.name.startswith(self.name)
        ]
        return self.dice.choice(mine) if mine else None

    # -- commands ------------------------------------------------------------------------------------------------------

    async def create(self) -> None:
        """Create a topic, under a new name or that of a deleted one."""
        topic = self._topic(exists=False) if self.dice.random() < 0.4 else None
        if topic is None:
            self._made += 1
            topic = self.world.facts.topics[f"{self.name}.t{self._made}"] = TopicFacts(f"{self.name}.t{self._made}")
        count, setting = self.dice.randint(1, 4), str(self.dice.randint(1, 9) * 3_600_000)
        topic.is_changing, topic.exists = True, None
        replicas = self.dice.choice((1, 3)) if self.world.plan.replicated_topics else 1
        answer = await self._call(_creating(topic.name, count, setting, replicas))
        code = None if answer is None else answer.topics[0].error_code
        wanted = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_REPLICATION_FACTOR})
        error = self._outcome(code, wanted, f"creates {topic.name} x{count}")
        if error is ErrorCode.INVALID_REPLICATION_FACTOR:  # no broker is unfenced
            topic.exists = False
        elif error is not None:
            topic.exists, topic.partitions, topic.setting, topic.knows_setting = True, count, setting, True
            topic.topic_id = None
            if error is ErrorCode.NONE:
                topic.topic_id = bytes(answer.topics[0].topic_id)
                self.world.facts.topic_id_told(topic.topic_id, f"{topic.name}@{self._made}.{self.world.loop.time()}")
        topic.is_changing = False

    async def create_wrongly(self) -> None:
        """Ask for a topic that cannot be: it must not be there afterwards."""
        self._made += 1
        topic = self.world.facts.topics[f"{self.name}.w{self._made}"] = TopicFacts(f"{self.name}.w{self._made}")
        is_count = self.dice.random() < 0.5
        answer = await self._call(_creating(topic.name, 0 if is_count else 1, "3600000" if is_count else "soon"))
        code = None if answer is None else answer.topics[0].error_code
        wanted = frozenset(
            {ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REPLICATION_FACTOR}
        )
        self._outcome(code, wanted, f"creates {topic.name} wrongly")

    async def delete(self) -> None:
        """Delete a topic."""
        topic = self._topic(exists=True)
        if topic is None:
            return
        topic.is_changing, topic.exists = True, None
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=topic.name, topic_id=ZERO_UUID)],
            topic_names=[topic.name],
            timeout_ms=_TIMEOUT_MS,
        )
        answer = await self._call(request)
        code = None if answer is None else answer.responses[0].error_code
        wanted = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        if self._outcome(code, wanted, f"deletes {topic.name}") is not None:
            topic.exists = False
        topic.is_changing = False

    async def grow(self) -> None:
        """Give a topic more partitions, or, wrongly, fewer."""
        topic = self._topic(exists=True)
        if topic is None:
            return
        shrinks = topic.partitions > 1 and self.dice.random() < 0.3
        count = topic.partitions - 1 if shrinks else topic.partitions + 1
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic.name, count=count, assignments=None)],
            timeout_ms=_TIMEOUT_MS,
            validate_only=False,
        )
        topic.is_changing = True
        answer = await self._call(request)
        code = None if answer is None else answer.results[0].error_code
        wanted = {ErrorCode.INVALID_PARTITIONS} if shrinks else {ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS}
        wanted.add(ErrorCode.INVALID_REPLICATION_FACTOR)
        error = self._outcome(code, frozenset(wanted), f"changes {topic.name} from {topic.partitions} to {count}")
        if error is None and not shrinks:
            topic.exists = None
        elif not shrinks and error is not ErrorCode.INVALID_REPLICATION_FACTOR:
            topic.partitions = count
        topic.is_changing = False

    async def configure(self) -> None:
        """Change a setting of a topic."""
        topic = self._topic(exists=True)
        if topic is not None:
            setting = str(self.dice.randint(1, 9) * 3_600_000)
            topic.is_changing = True
            answer = await self._call(_altering(topic.name, setting))
            code = None if answer is None else answer.responses[0].error_code
            error = self._outcome(code, frozenset({ErrorCode.NONE}), f"sets {SETTING}={setting} of {topic.name}")
            topic.setting, topic.knows_setting = setting, error is not None
            topic.is_changing = False

    async def configure_wrongly(self) -> None:
        """Ask for a setting that cannot be: the one before stays."""
        topic = self._topic(exists=True)
        if topic is not None:
            answer = await self._call(_altering(topic.name, "soon"))
            code = None if answer is None else answer.responses[0].error_code
            self._outcome(code, frozenset({ErrorCode.INVALID_CONFIG}), f"sets {SETTING} of {topic.name} wrongly")

    async def get_producer_id(self) -> None:
        """Ask for a producer id as an idempotent producer does."""
        self._asked += 1
        who = f"{self.name}.p{self._asked}"
        answer = await self._call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
        code = None if answer is None else answer.error_code
        if self._outcome(code, frozenset({ErrorCode.NONE}), f"asks for the producer id of {who}") is not None:
            self.world.facts.producer_id_told(answer.producer_id, who)


def _creating(name: str, count: int, setting: str, replicas: int = 1) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=replicas,
        assignments=[],
        configs=[CreatableTopicConfig(name=SETTING, value=setting)],
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=False)


def _altering(name: str, setting: str) -> IncrementalAlterConfigsRequest:
    resource = AlterConfigsResource(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        configs=[AlterableConfig(name=SETTING, config_operation=0, value=setting)],
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)

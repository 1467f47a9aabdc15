"""Tells stories to two brokers and gathers every field in which they answer differently."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.java.differ.side import Side
from tests.java.differ.story import Ask, Raw, Step, Story, Take

WRITES = frozenset(
    {
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterUserScramCredentials",
        "CreateAcls",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DeleteTopics",
        "ElectLeaders",
        "IncrementalAlterConfigs",
        "UpdateFeatures",
    }
)
"""Kafka's controller answers these before its broker has applied them."""
CLIENT_METRICS = 16
MISSING = "<missing>"


@dataclass(frozen=True)
class Difference:
    """One field that the brokers do not agree on."""

    story: str
    version: int
    path: str
    kafka: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.story} v{self.version} {self.path}\n    Kafka {self.kafka!r}\n    ours  {self.ours!r}"


@dataclass
class Comparison:
    """Everything that two brokers were asked, and where they differ."""

    kafka: Side
    ours: Side
    asked: dict[tuple[str, int], int] = field(default_factory=dict)
    raw_count: int = 0
    differences: list[Difference] = field(default_factory=list)
    _barriers: Iterator[int] = field(default_factory=lambda: itertools.count(1000))

    def versions(self, api: str) -> range:
        """The versions that both brokers announce; those that Kafka announces and refuses are left out."""
        (first, last), (our_first, our_last) = self.kafka.ranges[api], self.ours.ranges[api]
        return range(max(first, our_first, 3 if api == "Produce" else 0), min(last, our_last) + 1)

    def tell(self, story: Story) -> None:
        """Run a story in all of its versions."""
        for version in self.versions(story.api) if story.versions is None else story.versions:
            for step in story.steps:
                self._step(story, version, step)

    def _step(self, story: Story, story_version: int, step: Step) -> None:
        if isinstance(step, Raw):
            self.raw_count += 1
            kafka, ours = self.kafka.raw(step), self.ours.raw(step)
            label = step.label
        elif isinstance(step, Take):
            kafka, ours = self.kafka.take(step), self.ours.take(step)
            label = f"take {step.on}"
        else:
            version = self._version(story, story_version, step)
            self.asked[step.api, version] = self.asked.get((step.api, version), 0) + 1

            def text(value: str) -> str:
                return value.replace("{v}", str(story_version))

            kafka, ours = self.kafka.ask(step, version, text), self.ours.ask(step, version, text)
            if step.api in WRITES:
                self._wait_until_kafka_has_applied_it()
            label = step.label or step.api
        where = f"{label}: "
        for path, their_value, our_value in differing(kafka, ours):
            self.differences.append(Difference(story.name, story_version, where + path, their_value, our_value))

    def _version(self, story: Story, story_version: int, ask: Ask) -> int:
        if ask.version is not None:
            return ask.version
        return story_version if ask.api == story.api else self.versions(ask.api)[-1]

    def _wait_until_kafka_has_applied_it(self) -> None:
        """Metadata is applied in its order, one change at a time: a second marker is seen when the first is in force.

        The markers go to both brokers, which list them later.
        """
        for _ in range(2):
            value = str(next(self._barriers))
            entry = {"name": "interval.ms", "config_operation": 0, "value": value}
            resource = {"resource_type": CLIENT_METRICS, "resource_name": "differ-barrier"}
            write = Ask("IncrementalAlterConfigs", {"resources": [{**resource, "configs": [entry]}]}, on="barrier")
            self.kafka.ask(write, 1, str)
            self.ours.ask(write, 1, str)
            read = Ask(
                "DescribeConfigs",
                {"resources": [{**resource, "configuration_keys": ["interval.ms"]}]},
                on="barrier",
                keep={"barrier": "results.0.configs"},
            )
            for _ in range(1000):
                self.kafka.ask(read, 4, str)
                if any(each.value == value for each in self.kafka.known["barrier"]):
                    break
            else:
                raise AssertionError("Kafka does not apply its metadata")


def differing(kafka: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every place in two plain values where they are not equal."""
    if isinstance(kafka, dict) and isinstance(ours, dict):
        for key in sorted(kafka.keys() | ours.keys()):
            yield from differing(kafka.get(key, MISSING), ours.get(key, MISSING), f"{path}.{key}" if path else key)
    elif isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        for theirs, own in zip(kafka, ours, strict=True):
            yield from differing(theirs, own, f"{path}[]")
    elif kafka != ours or type(kafka) is not type(ours):
        yield path, kafka, ours

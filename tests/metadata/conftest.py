"""Builders of images for the tests of this room."""

from collections.abc import Callable, Iterator

import pytest

from stratalog.metadata.brokers_image import ListenerAddress
from stratalog.metadata.configs import ConfigResolver
from stratalog.metadata.controller import BrokerStart, TopicRules, register_broker
from stratalog.metadata.features import bootstrap_records
from stratalog.metadata.image import EMPTY_IMAGE, ClusterImage


@pytest.fixture
def start_of() -> Callable[..., BrokerStart]:
    """What broker N says of itself when it starts."""

    def build(broker_id: int, *, rack: str | None = None, directories: int = 1) -> BrokerStart:
        return BrokerStart(
            broker_id=broker_id,
            incarnation_id=bytes([broker_id]) * 16,
            listeners={"PLAINTEXT": ListenerAddress("localhost", 9092 + broker_id)},
            directories=tuple(bytes([broker_id, index + 100]) * 8 for index in range(directories)),
            rack=rack,
        )

    return build


@pytest.fixture
def cluster(start_of) -> Callable[..., ClusterImage]:
    """An image with the given brokers registered and alive."""

    def build(*broker_ids: int, racks: dict[int, str] | None = None) -> ClusterImage:
        image = EMPTY_IMAGE.apply(bootstrap_records())
        for index, broker_id in enumerate(broker_ids):
            start = start_of(broker_id, rack=(racks or {}).get(broker_id))
            decision = register_broker(image, start, broker_epoch=10 + index, unclean_allowed=lambda _: False)
            image = image.apply(decision.records)
        return image

    return build


@pytest.fixture
def rules() -> TopicRules:
    """Kafka's defaults for new topics."""
    return TopicRules(resolver=ConfigResolver.for_topics())


@pytest.fixture
def topic_ids() -> Callable[[], bytes]:
    """A factory of ids that never repeats and leaves nothing to chance."""
    numbers: Iterator[int] = iter(range(1, 1 << 20))
    return lambda: next(numbers).to_bytes(16, "big")

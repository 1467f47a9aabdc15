"""The rig of the tests of the APIs: a broker without a network."""

from tests.broker.api.conftest import broker_rig, now_ms

__all__ = ["broker_rig", "now_ms"]

"""Everything that happens to a node."""

from typing import get_args

from msgspec import Struct

from stratalog.metadata.raft.events import Event, Failed
from stratalog.metadata.raft.messages import ApiVersionsRequest
from stratalog.wire.errors import ErrorCode


def test_events_are_values():
    """A trace can be kept, compared and run again."""
    for kind in get_args(Event):
        assert issubclass(kind, Struct)
        assert kind.__struct_config__.frozen


def test_a_failure_without_a_reason_is_a_time_out():
    """The driver names UNSUPPORTED_VERSION, which alone means something else."""
    assert Failed(2, ApiVersionsRequest()).error is ErrorCode.REQUEST_TIMED_OUT

"""The services that connections share, and the limits of one of them."""

import asyncio

import pytest

from stratalog.broker.network.connection_services import ConnectionLimits, Services
from stratalog.broker.network.limits import server_limits
from stratalog.broker.settings.config import load_config


def test_the_defaults_are_those_of_the_settings(tmp_path):
    """A server made by hand is as careful as one that was configured with nothing."""
    config = load_config(assignments=[f"log.dirs={tmp_path}"], environment={})
    assert server_limits(config).connection == ConnectionLimits()


def test_limits_do_not_change_under_a_connection():
    """They are shared by all of them."""
    with pytest.raises(AttributeError, match="immutable"):
        ConnectionLimits().parked_max = 1


def test_a_stranger_may_send_less_than_a_client():
    """An unauthenticated client cannot fill the memory (CVE-2022-34917)."""
    limits = ConnectionLimits()
    assert limits.unauthenticated_frame_bytes_max < limits.frame_bytes_max


async def test_without_quotas_no_client_is_limited():
    """A server that was given none asks for none."""
    nothing = dict.fromkeys(("clock", "tick", "buffers", "page_cache", "metrics", "dispatch"))
    services = Services(loop=asyncio.get_running_loop(), **nothing)
    assert services.quota_of(object()) is None
    assert services.limits == ConnectionLimits()

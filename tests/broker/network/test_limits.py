"""Kafka's network settings as limits of the server."""

import resource

import pytest

from stratalog.broker.network.limits import allow_descriptors, segments_open_max, server_limits
from stratalog.broker.settings.config import load_config


@pytest.fixture
def descriptors(monkeypatch):
    """The process's limit of descriptors, as far as it is set here; changes are kept here, too."""

    def allowed(soft, hard=1 << 20):
        held = [(soft, hard)]
        monkeypatch.setattr(resource, "getrlimit", lambda which: held[-1])
        monkeypatch.setattr(resource, "setrlimit", lambda which, pair: held.append(pair))
        return held

    return allowed


@pytest.fixture
def limits(tmp_path):
    """The limits under some settings."""

    def make(**settings):
        assignments = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        assignments.append(f"log.dirs={tmp_path}")
        return server_limits(load_config(assignments=assignments, environment={}, host_name="localhost"))

    return make


def test_kafkas_defaults_are_bounded(limits, descriptors):
    """Where Kafka says "no limit", descriptors and memory still have one; buffers are the kernel's."""
    descriptors(1 << 20)
    found = limits()
    assert (found.connections_max, found.connections_reserved, found.connections_per_ip_max) == (10_000, 625, 2500)
    assert found.backlog == 1024
    assert found.connection_rate_max is None
    assert found.idle_ms == 600_000
    assert 0 < found.request_memory_bytes <= 1 << 30
    assert (found.send_buffer_bytes, found.receive_buffer_bytes) == (None, None)
    assert found.connection.frame_bytes_max == 104_857_600


def test_settings_set_the_limits(limits):
    """Every limit can be made smaller."""
    found = limits(
        max_connections=5,
        max_connections_per_ip=3,
        max_connections_per_ip_overrides="10.0.0.1:7, ::1:2",
        max_connection_creation_rate=9,
        connections_max_idle_ms=1000,
        queued_max_request_bytes=5_000_000,
        stratalog_request_memory_per_ip_bytes=1_000_000,
        socket_listen_backlog_size=50,
        socket_send_buffer_bytes=70_000,
        socket_receive_buffer_bytes=-1,
        socket_request_max_bytes=2_000_000,
        stratalog_unauthenticated_request_bytes_max=4096,
        stratalog_request_elements_max=5000,
        stratalog_request_tags_max=3,
    )
    assert (found.connections_max, found.connections_reserved, found.connections_per_ip_max) == (5, 0, 3)
    assert (found.backlog, found.request_memory_per_ip_bytes) == (50, 1_000_000)
    assert found.per_ip_overrides == {"10.0.0.1": 7, "::1": 2}
    assert (found.connection_rate_max, found.idle_ms, found.request_memory_bytes) == (9, 1000, 5_000_000)
    assert (found.send_buffer_bytes, found.receive_buffer_bytes) == (70_000, None)
    assert found.connection.frame_bytes_max == 2_000_000
    assert found.connection.unauthenticated_frame_bytes_max == 4096
    assert (found.connection.elements_max, found.connection.tags_max) == (5000, 3)


@pytest.mark.parametrize(("soft", "most"), [(1024, 128), (4096, 1237), (300, 37), (resource.RLIM_INFINITY, 10_000)])
def test_clients_cannot_take_the_descriptors_of_the_logs(limits, descriptors, soft, most):
    """A connection costs two; enough of them stay for segments, whatever max.connections says."""
    descriptors(soft)
    assert limits(max_connections=2_000_000).connections_max == most


def test_an_address_may_have_all_connections_if_that_is_asked_for(limits, descriptors):
    """Kafka's default, written down; and with few descriptors an address still gets what a client needs."""
    descriptors(1 << 20)
    assert limits(max_connections_per_ip=(1 << 31) - 1).connections_per_ip_max == (1 << 31) - 1
    descriptors(1024)
    assert limits().connections_per_ip_max == 64


@pytest.mark.parametrize(
    ("soft", "segments"),
    [(300, 512), (1024, 512), (30_000, 10_000), (1 << 20, 65_536), (resource.RLIM_INFINITY, 65_536)],
)
def test_segments_take_a_third_of_the_descriptors(descriptors, soft, segments):
    """Never fewer than a small broker needs, never more than is worth the memory."""
    descriptors(soft)
    assert segments_open_max() == segments


def test_as_many_descriptors_as_may_be(descriptors):
    """The soft limit, often 1024, is raised to the hard one."""
    held = descriptors(1024, 4096)
    assert allow_descriptors() == 4096
    assert held[-1] == (4096, 4096)
    assert allow_descriptors() == 4096
    assert len(held) == 2

"""Which path decodes records: what is installed, and what the environment says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from stratalog.spark.rows.kernel import INTERFACE, VARIABLE, chosen_kernel, installed_kernel
from stratalog.wire.errors import Invalid


@pytest.fixture(autouse=True)
def _looked_for_anew() -> Iterator[None]:
    installed_kernel.cache_clear()
    yield
    installed_kernel.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, records: object) -> None:
    """Something as the kernel's module; None for nothing."""
    monkeypatch.setitem(sys.modules, "stratalog_kernel", records and SimpleNamespace(records=records))  # type: ignore[misc]


def test_an_installed_kernel_decodes_unless_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is asked for or not."""
    records = SimpleNamespace(INTERFACE=INTERFACE)
    install(monkeypatch, records)
    for setting in ({}, {VARIABLE: ""}, {VARIABLE: "auto"}, {VARIABLE: "require"}):
        assert chosen_kernel(setting) == (records, "")
    assert chosen_kernel({VARIABLE: "off"}) == (None, "STRATALOG_KERNEL is 'off'")


def test_without_a_kernel_array_code_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the kernel is required, which is an error that says how to install it."""
    install(monkeypatch, None)
    kernel, reason = chosen_kernel({})
    assert kernel is None
    assert reason.startswith("it cannot be imported")
    with pytest.raises(Invalid, match="make kernel"):
        chosen_kernel({VARIABLE: "require"})


def test_a_kernel_of_another_release_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its functions may mean something else."""
    install(monkeypatch, SimpleNamespace(INTERFACE=INTERFACE + 1))
    assert chosen_kernel({}) == (None, f"the one installed has interface {INTERFACE + 1}, not {INTERFACE}")
    with pytest.raises(Invalid, match="interface"):
        chosen_kernel({VARIABLE: "require"})


def test_an_unknown_setting_is_refused() -> None:
    """A misspelt ``off`` must not be taken for something."""
    with pytest.raises(Invalid, match="it may be 'auto', 'off' or 'require'"):
        chosen_kernel({VARIABLE: "Off"})

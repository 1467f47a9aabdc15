"""Rewrites of archives in memory. A test file names the module that it tests ``module``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stratalog.spark.rewrite import group as rewrite_group
from stratalog.spark.rewrite import newest_keys


@pytest.fixture
def no_probe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in memory keeps its word; forty requests each would take longer than all else."""

    class Sound:
        def require(self, **_: bool) -> None:
            """It is."""

    monkeypatch.setattr(request.module.module, "probe", lambda store: Sound())


@pytest.fixture
def use(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """Lets everything work on a store."""

    def use(store: Any) -> Any:
        for each in (request.module.module, newest_keys, rewrite_group):
            monkeypatch.setattr(each, "open_archive", lambda url, options: store)
        return store

    return use

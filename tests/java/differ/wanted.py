"""The differences that are meant to be, each with its reason. What is not listed here is a fault."""

from __future__ import annotations

from tests.java.differ.story import Wanted

WANTED: tuple[Wanted, ...] = ()

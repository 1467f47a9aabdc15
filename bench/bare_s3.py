"""A boto3 client without a broker, to compare with: ranges in parallel, single ranges, uploads."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import boto3.session
from botocore.config import Config

from bench.object_server import ObjectServer
from bench.outcome import median

__all__ = ["BareClient"]

_RANGE_BYTES: Final = 12 << 20
_THREADS: Final = 6
"""As many GETs and PUTs at once, of as many bytes, as the broker's worker makes."""


@dataclass(frozen=True, slots=True)
class BareClient:
    """A client of a bucket called ``bench``."""

    client: Any

    @classmethod
    def of(cls, server: ObjectServer) -> BareClient:
        """A client of a started server."""
        config = Config(
            s3={"addressing_style": "path", "payload_signing_enabled": False},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            max_pool_connections=2 * _THREADS,
        )
        session = boto3.session.Session("bench", "bench", region_name="us-east-1")
        return cls(session.client("s3", endpoint_url=server.url, config=config))

    def objects(self, prefix: str) -> list[tuple[str, int]]:
        """Keys and sizes."""
        return [
            (one["Key"], one["Size"])
            for page in self.client.get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix=prefix)
            for one in page.get("Contents", ())
        ]

    def read_all(self, objects: list[tuple[str, int]]) -> float:
        """Read every object in ranges, several at once; the seconds it took."""
        ranges = [
            (key, at, min(_RANGE_BYTES, size - at)) for key, size in objects for at in range(0, size, _RANGE_BYTES)
        ]
        started = time.monotonic()
        with ThreadPoolExecutor(_THREADS) as pool:
            deque(pool.map(lambda one: self.read(*one), ranges), maxlen=0)
        return time.monotonic() - started

    def read(self, key: str, position: int, length: int) -> bytes:
        """One range. Raises ``SystemExit`` if it is cut short."""
        header = f"bytes={position}-{position + length - 1}"
        data: bytes = self.client.get_object(Bucket="bench", Key=key, Range=header)["Body"].read()
        if len(data) != length:
            raise SystemExit(f"{len(data)} bytes instead of {length}")
        return data

    def first_byte_ms(self, key: str, size_bytes: int, length: int, repetitions: int = 9) -> float:
        """The time of one range of an object, the median of several."""
        times = []
        for number in range(repetitions):
            started = time.monotonic()
            self.read(key, number % (size_bytes // length) * length, length)
            times.append((time.monotonic() - started) * 1000)
        return median(times)

    def upload(self, size_bytes: int, object_bytes: int) -> float:
        """Put objects from one buffer, several at once, and remove them; the seconds of the puts."""
        body = bytes(object_bytes)
        keys = [f"bare/{number}" for number in range(size_bytes // object_bytes)]
        started = time.monotonic()
        with ThreadPoolExecutor(_THREADS) as pool:
            deque(pool.map(lambda key: self.client.put_object(Bucket="bench", Key=key, Body=body), keys), maxlen=0)
        seconds = time.monotonic() - started
        for key in keys:
            self.client.delete_object(Bucket="bench", Key=key)
        return seconds

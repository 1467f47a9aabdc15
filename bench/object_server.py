"""A server of S3's protocol that costs little: objects are files, GETs leave by sendfile, rates are held when told.

As a program (``python -m bench.object_server FOLDER``) it says its port and serves until it is killed. It knows what the
archive asks for, conditions included, and believes checksums as they come: it is there to be read from quickly, not to be
relied on. ``PUT /_rate?bytes_per_second=N&first_byte_ms=M`` holds all its answers together to N bytes a second, each
beginning M ms late; 0 is no limit. Signatures are not looked at.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from bench.build import cubic_environment

__all__ = ["ObjectServer"]

_PIECE_BYTES: Final = 256 << 10
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")
_KEY: Final = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)
_PART: Final = re.compile(r"<PartNumber>(\d+)</PartNumber>")
_KEPT: Final = ("x-amz-checksum-crc32c", "x-amz-storage-class")


@dataclass(slots=True)
class _Object:
    """A file and what is said of it; the file is never changed, only replaced."""

    path: Path
    size_bytes: int
    headers: dict[str, str]
    etag: str = field(default_factory=lambda: f'"{uuid.uuid4().hex}"')
    modified: float = field(default_factory=time.time)


class _Pace:
    """One rate for all answers."""

    def __init__(self) -> None:
        self.bytes_per_second = 0.0
        self.first_byte_seconds = 0.0
        self._lock = threading.Lock()
        self._free_at = 0.0

    def wait(self, size_bytes: int) -> None:
        """Until so many bytes may leave."""
        if not self.bytes_per_second:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now - _PIECE_BYTES / self.bytes_per_second)
            self._free_at += size_bytes / self.bytes_per_second
            seconds = self._free_at - now
        if seconds > 0:
            time.sleep(seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.pace = _Pace()
        self.objects: dict[str, _Object] = {}
        self.uploads: dict[str, tuple[dict[str, str], dict[int, Path]]] = {}
        self.changing = threading.Lock()
        self.counts = Counter({"requests": 0, "parts": 0})

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that is gone is no error; any other error is reported."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    """One connection; a bucket's name is the first part of each path."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """No request is logged."""

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        names = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        key = unquote(parts.path).partition("/")[2].partition("/")[2]
        if not parts.path.startswith("/_"):
            time.sleep(self.server.pace.first_byte_seconds)
            with self.server.changing:
                self.server.counts["parts"] += "partNumber" in names
                self.server.counts["requests"] += bool(key)
        return key, names

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        self._answer(status, b"" if self.command == "HEAD" else body)

    def _store_body(self) -> tuple[Path, int]:
        path = self.server.folder / uuid.uuid4().hex
        left = size_bytes = int(self.headers.get("Content-Length", 0))
        with path.open("wb", buffering=0) as file:
            while left:
                data = self.rfile.read(min(left, _PIECE_BYTES))
                if not data:
                    raise ConnectionError("the body ended early")
                file.write(data)
                left -= len(data)
        return path, size_bytes

    def _kept_headers(self) -> dict[str, str]:
        names = [name for name in self.headers if name.lower() in _KEPT or name.lower().startswith("x-amz-meta-")]
        return {name: self.headers[name] for name in names}

    # -- writing ------------------------------------------------------------------------------------------------------

    def do_PUT(self) -> None:
        """Rates, parts and objects."""
        if self.path.startswith("/_rate"):
            _, names = self._asked()
            self.server.pace.bytes_per_second = float(names["bytes_per_second"])
            self.server.pace.first_byte_seconds = float(names["first_byte_ms"]) / 1000
            self._answer(200)
            return
        key, names = self._asked()
        path, size_bytes = self._store_body()
        if "uploadId" in names:
            self.server.uploads[names["uploadId"]][1][int(names["partNumber"])] = path
            self._answer(200, ETag=f'"{path.name}"')
            return
        self._replace(key, _Object(path, size_bytes, self._kept_headers()))

    def _replace(self, key: str, new: _Object) -> None:
        with self.server.changing:
            old = self.server.objects.get(key)
            if (self.headers.get("If-None-Match") == "*" and old) or (
                self.headers.get("If-Match") not in {None, old and old.etag}
            ):
                new.path.unlink()
                self._refuse(412, "PreconditionFailed")
                return
            self.server.objects[key] = new
        if old:
            old.path.unlink()
        self._answer(200, ETag=new.etag, **_quoted(new.headers))

    def do_POST(self) -> None:
        """Multipart uploads, and deletions of many."""
        key, names = self._asked()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "delete" in names:
            for name in _KEY.findall(body.decode()):
                gone = self.server.objects.pop(unquote(name), None)
                if gone:
                    gone.path.unlink()
            self._answer(200, b"<DeleteResult/>")
        elif "uploads" in names:
            upload_id = uuid.uuid4().hex
            self.server.uploads[upload_id] = self._kept_headers(), {}
            kind = {"x_amz_checksum_type": "FULL_OBJECT", "x_amz_checksum_algorithm": "CRC32C"}
            text = f"<InitiateMultipartUploadResult><UploadId>{upload_id}</UploadId></InitiateMultipartUploadResult>"
            self._answer(200, text.encode(), **kind)
        else:
            self._complete(key, names["uploadId"], [int(number) for number in _PART.findall(body.decode())])

    def _complete(self, key: str, upload_id: str, numbers: list[int]) -> None:
        headers, parts = self.server.uploads.pop(upload_id)
        first, *others = (parts[number] for number in numbers)
        with first.open("r+b", buffering=0) as target:  # sendfile refuses what is opened to be appended to
            target.seek(0, os.SEEK_END)
            for other in others:
                with other.open("rb") as source:
                    left = os.fstat(source.fileno()).st_size
                    while left:
                        left -= os.sendfile(target.fileno(), source.fileno(), None, left)
                other.unlink()
        headers |= self._kept_headers()
        new = _Object(first, first.stat().st_size, headers)
        self.server.objects[key] = new
        crc = headers.get("x-amz-checksum-crc32c", "")
        text = (
            f"<CompleteMultipartUploadResult><ETag>{escape(new.etag)}</ETag><ChecksumCRC32C>{crc}</ChecksumCRC32C>"
            "<ChecksumType>FULL_OBJECT</ChecksumType></CompleteMultipartUploadResult>"
        )
        self._answer(200, text.encode())

    def do_DELETE(self) -> None:
        """One object, or an unfinished upload."""
        key, names = self._asked()
        self.server.uploads.pop(names.get("uploadId", ""), None)
        gone = self.server.objects.pop(key, None) if "uploadId" not in names else None
        if gone:
            gone.path.unlink()
        self._answer(204)

    # -- reading ------------------------------------------------------------------------------------------------------

    def do_HEAD(self) -> None:
        """The headers of an object."""
        self._read(with_body=False)

    def do_GET(self) -> None:
        """An object, a range of it, a list, or how many requests there were but for lists."""
        parts = urlsplit(self.path)
        if parts.path == "/_counts":
            self._answer(200, json.dumps(self.server.counts).encode())
            return
        if parts.path.strip("/").count("/") == 0:
            self._list()
        else:
            self._read(with_body=True)

    def _read(self, *, with_body: bool) -> None:
        key, _ = self._asked()
        found = self.server.objects.get(key)
        if found is None:
            self._refuse(404, "NoSuchKey")
            return
        start, end = self._range(found.size_bytes)
        if start >= end and found.size_bytes:
            self._refuse(416, "InvalidRange")
            return
        said = _quoted(found.headers)
        if self.headers.get("Range") and found.size_bytes:
            said = {"Content_Range": f"bytes {start}-{end - 1}/{found.size_bytes}"}
        self._answer(
            206 if "Content_Range" in said else 200,
            Content_Length=str(end - start),
            ETag=found.etag,
            Last_Modified=formatdate(found.modified, usegmt=True),
            **said,
        )
        if with_body:
            self._send(found.path, start, end)

    def _range(self, size_bytes: int) -> tuple[int, int]:
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None:
            return 0, size_bytes
        if not match[1]:
            return max(0, size_bytes - int(match[2])), size_bytes
        return int(match[1]), min(size_bytes, int(match[2] or size_bytes) + 1)

    def _send(self, path: Path, start: int, end: int) -> None:
        piece = _PIECE_BYTES if self.server.pace.bytes_per_second else end - start
        with path.open("rb") as file:
            while start < end:
                wanted = min(piece, end - start)
                self.server.pace.wait(wanted)
                start += os.sendfile(self.connection.fileno(), file.fileno(), start, wanted)

    def _list(self) -> None:
        _, names = self._asked()
        prefix, after = names.get("prefix", ""), names.get("start-after", "")
        with self.server.changing:
            found = sorted(
                (key, one) for key, one in self.server.objects.items() if key.startswith(prefix) and key > after
            )
        limit = int(names.get("max-keys", 1000))
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{_iso(one.modified)}</LastModified>"
            f"<ETag>{escape(one.etag)}</ETag><Size>{one.size_bytes}</Size></Contents>"
            for key, one in found[:limit]
        )
        more = str(len(found) > limit).lower()
        self._answer(200, f"<ListBucketResult><IsTruncated>{more}</IsTruncated>{rows}</ListBucketResult>".encode())


def _quoted(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in headers.items()}


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))


@dataclass(frozen=True, slots=True)
class ObjectServer:
    """A started server."""

    process: subprocess.Popen[str]
    url: str

    @classmethod
    @contextmanager
    def start(cls, folder: Path, before: Sequence[str] = ()) -> Iterator[ObjectServer]:
        """Start it with its objects in ``folder``, ``before`` its command line; it ends with the context."""
        folder.mkdir(parents=True, exist_ok=True)
        command = [*before, sys.executable, "-m", "bench.object_server", str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=cubic_environment()) as process:
            try:
                assert process.stdout is not None
                yield cls(process, f"http://127.0.0.1:{int(process.stdout.readline())}")
            finally:
                process.kill()

    @property
    def settings(self) -> dict[str, str]:
        """Settings that a broker needs besides the URL of the bucket; credentials may be anything."""
        return {"stratalog.bucket.endpoint.url": self.url, "stratalog.bucket.region": "us-east-1"}

    def counts(self) -> dict[str, int]:
        """``requests`` so far for objects, lists left out, and how many of them brought ``parts``."""
        with urllib.request.urlopen(f"{self.url}/_counts", timeout=30) as answer:
            counts: dict[str, int] = json.load(answer)
        return counts

    def hold(self, megabytes_per_second: float = 0.0, first_byte_ms: float = 0.0) -> None:
        """From now on answers obey these."""
        rate = megabytes_per_second * 1e6
        request = urllib.request.Request(
            f"{self.url}/_rate?bytes_per_second={rate}&first_byte_ms={first_byte_ms}", method="PUT"
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()


def main(folder: Path) -> None:
    """Say the port, and serve."""
    server = _Server(folder)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

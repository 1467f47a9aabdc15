"""A Confluent Schema Registry, read: schemas by id, each asked for once by a process, and the newest of a subject."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from stratalog.wire.errors import Invalid, StratalogError

__all__ = ["RegisteredSchema", "RegistryAccess", "RegistryError", "SchemaNotFound", "SchemaRegistry"]

_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_TIMEOUT_SECONDS: Final = 10.0
_PAUSES_SECONDS: Final = (0.2, 1.0)
"""Before each further attempt, where the registry does not answer or fails."""
_NOT_FOUND: Final = 404
_SERVER_ERROR: Final = 500
_REFERENCES_MAX: Final = 100
_REFERENCES_BYTES_MAX: Final = 16 << 20
_ANSWER_BYTES_MAX: Final = 4 << 20
"""A schema of some thousand fields has a few hundred kilobytes."""


class RegistryError(StratalogError):
    """The registry does not answer, refuses or answers nonsense: what it holds is not known."""


class SchemaNotFound(RegistryError):
    """The registry has no such schema."""


class _Redirected(RegistryError):
    """The registry sends its clients elsewhere, where neither questions nor credentials go."""


class _SameOrigin(HTTPRedirectHandler):
    """Follows redirects to the scheme, host and port that were asked: a request takes its credentials along (CWE-200)."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        """As the base class, which bounds how many there are. Raises `_Redirected` for another origin."""
        if _origin(newurl) != _origin(req.full_url):
            target = newurl.partition("?")[0]
            raise _Redirected(
                f"the schema registry at {req.full_url} answers {code} and names {target}, another host, port or "
                "scheme: it is not followed; if that is the registry, give its address in option 'schemaRegistry'"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@cache
def _opener() -> OpenerDirector:
    return build_opener(_SameOrigin())


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port (RFC 6454)."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


class RegisteredSchema(NamedTuple):
    """One schema: ``kind`` is AVRO, JSON or PROTOBUF, ``text`` its text (of PROTOBUF the base64 of its descriptor,
    where the registry knows ``format=serialized``).

    ``references`` are the schemas that it needs, by the names it calls them, each behind those that it needs itself.
    """

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """Where a registry is, and as whom it is asked. Raises `Invalid` for an address that is none."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise Invalid(f"option 'schemaRegistry' must be a URL like https://registry:8081, got '{self.url}'")


class SchemaRegistry:
    """Asks one registry. Any thread may call any method; schemas are kept, since those behind an id or a version never change."""

    def __init__(self, access: RegistryAccess) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._known: dict[str, Any] = {}

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id. Raises `SchemaNotFound`, and `RegistryError` where it cannot be known."""
        return self._resolved(f"/schemas/ids/{schema_id}", f"schema {schema_id}")

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject, asked for each time. Raises what `schema` raises."""
        path, what = f"/subjects/{quote(subject, safe='')}/versions/latest", f"subject '{subject}'"
        with self._lock:
            self._known.pop(path, None)
        return self._resolved(path, what)

    def _resolved(self, path: str, what: str) -> RegisteredSchema:
        document = self._document(path, what)
        references: dict[str, str] = {}
        self._collect(document, references, set(), what)
        return RegisteredSchema(_kind(document), _text(document, what), tuple(references.items()))

    def _collect(self, document: Mapping[str, Any], references: dict[str, str], seen: set[str], what: str) -> None:
        """Put what ``document`` refers to into ``references``, what those refer to first.

        ``seen``: the names that were met, counted on the way down, so that a chain without an end has one here.
        """
        for name, path in self._referred(document, what):
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > _REFERENCES_MAX:
                raise RegistryError(f"{self._access.url}: {what} refers to more than {_REFERENCES_MAX} schemas")
            found = self._document(path, f"'{name}', which {what} refers to")
            self._collect(found, references, seen, what)
            references[name] = _text(found, name)
            if sum(map(len, references.values())) > _REFERENCES_BYTES_MAX:
                raise RegistryError(
                    f"{self._access.url}: the schemas that {what} refers to have more than {_REFERENCES_BYTES_MAX} bytes"
                )

    def _referred(self, document: Mapping[str, Any], what: str) -> list[tuple[str, str]]:
        """Name and path of each schema that ``document`` refers to itself."""
        try:
            return [
                (str(each["name"]), f"/subjects/{quote(str(each['subject']), safe='')}/versions/{int(each['version'])}")
                for each in document.get("references") or ()
            ]
        except (LookupError, TypeError, ValueError) as error:
            raise RegistryError(f"{self._access.url}: the references of {what} cannot be read: {error!r}") from error

    def _document(self, path: str, what: str) -> Mapping[str, Any]:
        """The answer to ``path``. A schema of Protobuf is asked for again, as a descriptor."""
        with self._lock:
            if path not in self._known:
                document = self._ask(path, what)
                if _kind(document) == "PROTOBUF":
                    document = self._ask(f"{path}?format=serialized", what)
                self._known[path] = document
            found: Mapping[str, Any] = self._known[path]
            return found

    def _ask(self, path: str, what: str) -> Mapping[str, Any]:
        reason = ""
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                return self._get(path)
            except HTTPError as error:
                with error:
                    reason = f"HTTP {error.code} {error.reason}"
                if error.code == _NOT_FOUND:
                    raise SchemaNotFound(f"{what} is not in the schema registry {self._access.url}") from error
                if error.code < _SERVER_ERROR:
                    raise RegistryError(
                        f"the schema registry {self._access.url} refuses {what}: {reason}; see option "
                        f"'schemaRegistry.user'"
                    ) from error
            except (URLError, OSError, ValueError) as error:
                reason = str(getattr(error, "reason", error))
            if pause_seconds is None:
                break
            time.sleep(pause_seconds)
        raise RegistryError(f"the schema registry {self._access.url} gives no answer for {what}: {reason}")

    def _get(self, path: str) -> Mapping[str, Any]:
        request = Request(self._access.url.rstrip("/") + path, headers={"Accept": _ACCEPT})  # noqa: S310 - http(s) only, see RegistryAccess
        if self._access.user:
            secret = f"{self._access.user}:{self._access.password}".encode()
            request.add_header("Authorization", "Basic " + base64.b64encode(secret).decode("ascii"))
        with _opener().open(request, timeout=_TIMEOUT_SECONDS) as answer:
            data = answer.read(_ANSWER_BYTES_MAX + 1)
        if len(data) > _ANSWER_BYTES_MAX:
            raise RegistryError(
                f"the schema registry {self._access.url} answers {path} with more than {_ANSWER_BYTES_MAX} bytes"
            )
        try:
            document = json.loads(data)
        except RecursionError as error:
            raise ValueError("an answer is nested too deeply") from error
        if not isinstance(document, dict):
            raise ValueError(f"an answer is no JSON object: {str(document)[:100]}")  # noqa: TRY004 - it is the answer that is wrong
        return document


def _kind(document: Mapping[str, Any]) -> str:
    """Registries leave the kind out where it is Avro."""
    return str(document.get("schemaType") or "AVRO").upper()


def _text(document: Mapping[str, Any], what: str) -> str:
    text = document.get("schema")
    if not isinstance(text, str):
        raise RegistryError(f"the schema registry's answer for {what} has no schema")
    return text

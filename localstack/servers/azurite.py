"""Azurite: Azure's blob storage, for `abfs://`. Needs Node; the account and its key are those that Azurite publishes."""

from __future__ import annotations

from pathlib import Path

from servers.errors import NotReady, StartError
from servers.recipe import Plan, Recipe, run_installer

VERSION = "3.37.0"
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_PROGRAM = Path("node_modules/azurite/dist/src/blob/main.js")
_BY_HAND = "install Node and npm"


def _find(directory: Path) -> Path | None:
    program = directory / _PROGRAM
    return program if program.exists() else None


def _install(directory: Path) -> None:
    directory.mkdir()
    npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(directory)]
    run_installer([*npm, f"azurite@{VERSION}"], advice=_BY_HAND)


def _plan(program: Path, port: int, directory: Path) -> Plan:
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(directory)]
    return Plan(["node", str(program), *where, "--skipApiVersionCheck", "--disableTelemetry"], {})


def _clients(endpoint_url: str) -> dict[str, str]:
    text = f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={_KEY};"
    return {"AZURE_STORAGE_CONNECTION_STRING": f"{text}BlobEndpoint={endpoint_url}/{_ACCOUNT};"}


def _make_bucket(endpoint_url: str, bucket: str) -> None:
    try:
        from azure.core.exceptions import AzureError, ResourceExistsError  # noqa: PLC0415 - an optional package
        from azure.storage.blob import BlobServiceClient  # noqa: PLC0415 - same
    except ImportError as error:
        raise StartError(f"no client for Azure ({error}): pip install 'stratalog[azure]'") from error
    text = _clients(endpoint_url)["AZURE_STORAGE_CONNECTION_STRING"]
    try:
        with BlobServiceClient.from_connection_string(text, retry_total=0) as service:
            service.create_container(bucket)
    except ResourceExistsError:
        return
    except AzureError as error:
        raise NotReady(str(error)) from error


RECIPE = Recipe("azurite", VERSION, 1, _find, _install, _BY_HAND, _plan, _clients, _make_bucket, "abfs")

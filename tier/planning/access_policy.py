"""Makes the policy with exactly the rights that each role needs on an S3 bucket. Pure.

Which requests we make for which permission: PUT and multipart uploads need ``s3:PutObject``, GET and HEAD
``s3:GetObject``, listings ``s3:ListBucket`` (without it a missing object is answered with 403 instead of 404).
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from stratalog.tier.documents.keys import LEASES_PREFIX
from stratalog.wire.errors import Invalid

__all__ = ["ROLES", "access_policy"]

ROLES: Final = ("broker", "spark", "scrub")
"""The broker and the commands that change an archive; Spark, which writes leases only; verification, which reads."""

_READ: Final = ("s3:GetObject",)
_CHANGE: Final = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
_UPLOADS: Final = "s3:ListBucketMultipartUploads"


def access_policy(role: str, url: str, *, principal: str | None = None, kms_key: str | None = None) -> dict[str, Any]:
    """The policy document of ``role`` for the archive at ``url`` (``s3://bucket/prefix``).

    With ``principal``, the ARN of a user or role, it can be attached to the bucket; without, to the role itself.
    ``kms_key`` is the ARN of the key if objects are encrypted by KMS; its key policy has to agree. Raises `Invalid`.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"s3", "s3a"} or not parts.netloc:
        raise Invalid(f"{url} is no S3 URL: a policy is for s3://bucket/prefix")
    if role not in ROLES:
        raise Invalid(f"there is no role {role!r}; those are {', '.join(ROLES)}")
    bucket, prefix = f"arn:aws:s3:::{parts.netloc}", parts.path.strip("/")
    folder = f"{bucket}/{prefix}/" if prefix else f"{bucket}/"
    statements = [_list_statement(bucket, prefix)]
    if role == "broker":
        statements.append(_statement("ListUnfinishedUploads", (_UPLOADS,), bucket))
        statements.append(_statement("ChangeArchive", _CHANGE, f"{folder}*"))
    else:
        statements.append(_statement("ReadArchive", _READ, f"{folder}*"))
    if role == "spark":
        statements.append(_statement("WriteLeases", ("s3:PutObject", "s3:DeleteObject"), f"{folder}{LEASES_PREFIX}*"))
    if kms_key is not None:
        wants = ("kms:Decrypt",) if role == "scrub" else ("kms:Decrypt", "kms:GenerateDataKey")
        statements.append(_statement("UseKey", wants, kms_key))
    if principal is not None:
        statements = [{**one, "Principal": {"AWS": principal}} for one in statements if one["Sid"] != "UseKey"]
    return {"Version": "2012-10-17", "Statement": statements}


def _statement(sid: str, actions: tuple[str, ...], resource: str) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": resource}


def _list_statement(bucket: str, prefix: str) -> dict[str, Any]:
    statement = _statement("ListArchive", ("s3:ListBucket",), bucket)
    if prefix:
        statement["Condition"] = {"StringLike": {"s3:prefix": f"{prefix}/*"}}
    return statement

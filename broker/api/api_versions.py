"""ApiVersions (key 18): which APIs are served, in which versions, and the features of the cluster.

Behaviour: computed from the dispatch table, so it cannot lie; an unknown version is answered by the dispatcher with a
v0 body (KIP-511). Version 3 checks how the client names itself; features that may be at level 0 are listed from version
4 on (KAFKA-17011). The level of ``kraft.version`` is the quorum's.
"""

from __future__ import annotations

import re
from typing import Final

from stratalog.broker.api.metadata_view import Context
from stratalog.broker.requests.dispatch import Api, Operation, ResourceType
from stratalog.metadata.image.features import KRAFT_VERSION, NODE_FEATURES
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from stratalog.wire.schema import Message

__all__ = ["API"]

_NAMED_SINCE: Final = 3
_ZERO_LEVEL_SINCE: Final = 4
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: Context, request: ApiVersionsRequest) -> Message:
    """Answer from the table and the image."""
    version = context.api_version
    names = (request.client_software_name, request.client_software_version)
    if version >= _NAMED_SINCE and not all(map(_SOFTWARE.fullmatch, names)):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    image, kraft_version = context.broker.image, context.broker.quorum.kraft_version
    levels = image.features if kraft_version == 0 else {**image.features, KRAFT_VERSION: kraft_version}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, first, last in context.dispatcher.advertised()
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=range_.minimum, max_version=range_.maximum)
            for name, range_ in NODE_FEATURES.items()
            if range_.minimum > 0 or version >= _ZERO_LEVEL_SINCE
        ],
        finalized_features_epoch=image.provenance.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(levels.items())
        ],
    )


API = Api(
    key=18,
    versions=(0, 4),
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
    handle=handle,
    operation=Operation.ANY,
    resource=ResourceType.CLUSTER,
)

"""What the errors of a store's client mean: by name, by code, by HTTP status."""

from collections.abc import Iterator

NO_LOGIN = {"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "ProfileNotFound"}
REFUSED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "403"}
UNREACHED = {
    "EndpointConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ClientConnectorError",
    "ConnectionClosedError",
    "ServiceRequestError",
    "ServiceResponseError",
    "FSTimeoutError",
    "HTTPClientError",
    "ClientPayloadError",
    "IncompleteRead",
    "IncompleteReadError",
    "ResponseParserError",
    "ServerDisconnectedError",
}
BUSY = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "ThrottlingException", "ServerBusy"}
PASSING_STATUSES = {408, 429}


def chain(error: BaseException) -> Iterator[BaseException]:
    """Iterate over an error and what it came from."""
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__ or one.__context__


def code_of(error: BaseException) -> str:
    """Return what a store of S3's kind calls an error; empty where it says nothing."""
    for one in chain(error):
        response = getattr(one, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
    return ""


def status_of(error: BaseException) -> int:
    """Return the HTTP status of a reply that was an error; 0 where there was none."""
    for one in chain(error):
        response = getattr(one, "response", None)
        if isinstance(response, dict):
            return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
        for name in ("status_code", "status", "code"):
            if isinstance(found := getattr(one, name, None), int):
                return found
    return 0

"""Meanings of the errors of a store's client, by name, by code and by HTTP status."""

from longmemeval.errors import chain

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


def code_of(error: BaseException) -> str:
    """Return the code that an S3-like store gives an error; empty if it has none."""
    for link in chain(error):
        response = getattr(link, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
    return ""


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error reply; 0 if there was none."""
    for link in chain(error):
        response = getattr(link, "response", None)
        if isinstance(response, dict):
            return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
        for name in ("status_code", "status", "code"):
            if isinstance(found := getattr(link, name, None), int):
                return found
    return 0

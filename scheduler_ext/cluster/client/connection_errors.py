"""Readable messages for failed connections."""

import http.client
import re
import ssl

_NUMBER = re.compile(r"\[(?:Errno -?\d+|SSL(?:: \w+)?)\] | ?\(_ssl\.c:\d+\)")
# urllib3 begins with the other side of the connection: "HTTPSConnection(host='a', port=1): ".
_POOL = re.compile(r"^<?HTTPS?Connection(?:Pool)?\(host='([^']*)', port=(\d+)\)[^:]*: ")
_LATE = re.compile(r"Connection to (\S+) timed out")
_NEW = "Failed to establish a new connection: "


def in_words(error: BaseException) -> str:
    """One line without names of classes and numbers of errors."""
    # Imported here: reading a kubeconfig does not need the slow import of the client.
    import urllib3
    from kubernetes.client.exceptions import ApiException

    text = without_numbers(str(error))
    found = _POOL.match(text)
    where = f"{found[1]}:{found[2]}: " if found is not None else ""
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return f"{where}the name of this host is not known"
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return where + text[found.end() if found is not None else 0 :].removeprefix(_NEW)
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        late = _LATE.search(text)
        return (f"{late[1]}: " if late is not None else where) + "no connection in time"
    if isinstance(error, urllib3.exceptions.ReadTimeoutError):
        return f"{where}no answer in time"
    if isinstance(error, urllib3.exceptions.ProxyError):
        return f"no connection to the proxy: {in_words(error.original_error)}"
    if isinstance(error, urllib3.exceptions.ProtocolError) and isinstance(error.args[-1], Exception):
        return in_words(error.args[-1])
    if isinstance(error, ApiException) and not error.status:
        # No answer at all: a failed handshake, as its class and then its text, or a port-forward.
        return without_numbers(str(error.reason).split("\n", 1)[-1])
    return _system(error) or text or type(error).__name__


def _system(error: BaseException) -> str | None:
    if isinstance(error, BrokenPipeError | ConnectionResetError | http.client.RemoteDisconnected):
        return "the connection was closed before there was an answer"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ssl.SSLError):
        return (f"{error.filename}: " if error.filename else "") + error.strerror
    return None


def without_numbers(text: str) -> str:
    """One line of an error's text, without its numbers."""
    return _NUMBER.sub("", " ".join(text.split()))

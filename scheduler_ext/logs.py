"""Log lines on stderr: JSON for machines, text for people."""

import json
import logging
import sys
import time
from typing import Any

from scheduler_ext.printable import printable


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TextFormatter(logging.Formatter):
    """One line per message: whatever a caller's names hold, they cannot look like another line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        # A traceback is added after this, on lines of its own.
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 (logging's name)
        # Its last lines are the error's message, which may quote a name.
        return "\n".join(printable(line) for line in super().formatException(ei).split("\n"))


def configure_logs(form: str) -> None:
    """Send all logs to stderr in one form, `json` or `text`."""
    text = TextFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)

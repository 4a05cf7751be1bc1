"""Log lines on stderr: JSON for machines, text for people."""

import json
import logging
import sys
import time
from typing import ClassVar


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

    _ESCAPED: ClassVar = {
        code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
        for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
    }

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        # A traceback is added after this, on lines of its own.
        return super().formatMessage(record).translate(self._ESCAPED)


def configure_logs(form: str) -> None:
    """Send all logs to stderr in one form, `json` or `text`."""
    text = TextFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)

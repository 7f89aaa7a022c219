"""How our processes log: lines of key=value, and never an error of the log itself."""

import logging
import sys
from contextlib import suppress
from typing import TextIO

import structlog


class PatientStream:
    """Writes to `stream` while that goes: on a full disk a line is lost, not the process that wrote it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or not."""
        with suppress(OSError, ValueError):
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        """Flush, or not."""
        with suppress(OSError, ValueError):
            self._stream.flush()


def set_up() -> None:
    """For processes that nobody looks at: our lines and those of libraries (warnings and worse) to stdout."""
    stream = PatientStream(sys.stdout)
    form = "timestamp='%(asctime)s' level='%(levelname)s' event='%(message)s' logger='%(name)s'"
    logging.basicConfig(level=logging.WARNING, stream=stream, format=form)
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso"),
                    structlog.processors.format_exc_info,
                    structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"])],
        logger_factory=structlog.PrintLoggerFactory(file=stream),  # type: ignore[arg-type]
        cache_logger_on_first_use=True)

"""The Celery app: a doorbell with slots. Messages are hints, acknowledged early, with no results and no countdowns."""

import threading
from typing import Any, Final

from celery import Celery

from orchestrator import tasks

EMBEDDED: Final = "memory://localhost/"
_POLL_S: Final = 0.02


def make_app(broker_url: str = "") -> Celery:
    """An app on `broker_url` ("": inside this process)."""
    app = Celery("gpupoor", broker=broker_url or EMBEDDED, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        broker_connection_retry_on_startup=True,
        broker_transport_options={"polling_interval": _POLL_S} if not broker_url else {},
        enable_utc=True,
        task_acks_late=False,
        task_ignore_result=True,
        task_serializer="json",
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=4,
        worker_redirect_stdouts=False,
    )
    return app


class Sender:
    """Sends a ring as a message; the same ring is not sent again while it still waits in this process's queue."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._waiting: set[tuple[str, str]] = set()

    def send(self, kind: str, id: str) -> None:
        """kind: 'job' or 'machine'."""
        with self._lock:
            if (kind, id) in self._waiting:
                return
            self._waiting.add((kind, id))
        try:
            self._app.send_task({"job": tasks.ADVANCE_JOB, "machine": tasks.ADVANCE_MACHINE}[kind], (id,))
        except BaseException:
            self.taken(kind, id)
            raise

    def taken(self, kind: str, id: str) -> None:
        """The message was taken up: the next ring must be sent again."""
        with self._lock:
            self._waiting.discard((kind, id))


class EmbeddedWorker:
    """A Celery worker in threads of this process, with no signals and no console of its own."""

    def __init__(self, app: Celery, slots: int) -> None:
        from celery.worker import WorkController

        app.finalize()
        self._worker: Any = WorkController(app=app, pool_cls="threads", concurrency=slots, hostname="gpupoor@local",
                                           without_gossip=True, without_mingle=True, without_heartbeat=True,
                                           loglevel="WARNING")
        self._thread = threading.Thread(target=self._worker.start, name="celery", daemon=True)

    def start(self) -> None:
        """Start taking tasks."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it still takes tasks."""
        return self._thread.is_alive()

    def stop(self, limit_s: float) -> None:
        """Take no more tasks; waits for those that run, but not longer than `limit_s` real seconds."""
        from celery.worker import state

        state.should_stop = 0
        self._thread.join(limit_s)

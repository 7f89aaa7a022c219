"""The log of an attempt, stream by stream ('log', 'stderr'): chunks as blobs, their places as rows.

The offset in the attempt's row is the truth: a chunk counts when its row and the new offset were committed in one
transaction, so a crash loses no byte and doubles none. Over the cap (`log_cap` per stream) the first nine tenths
and the last tenth are kept; what lies between goes as new bytes come, and reading shows a marker line in its place.
"""

import io
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from orchestrator.db.change import change
from orchestrator.db.models import Attempt, LogChunk
from orchestrator.world import World

CHUNK: Final = 256 * 1024
STREAMS: Final = ("log", "stderr")
_RUN: Final = 64
_PIECE: Final = 64 * 1024
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class NotFollowing(Exception):
    """The attempt is followed by somebody else; whoever appends must stop."""


@dataclass(frozen=True)
class _Chunk:
    offset: int
    length: int
    blob: str

    @property
    def end(self) -> int:
        return self.offset + self.length


def append(world: World, job_id: str, attempt: int, stream: str, offset: int, data: bytes, token: str) -> int:
    """Store `data`, the stream's bytes from `offset` on; the offset up to which the stream is stored now.

    Nothing is changed when the stream is stored up to another offset already. Raises NotFollowing when
    `token` is not the attempt's follow_token any more, Unanswered when disk or database have no room.
    """
    if not data:
        return size(world, job_id, attempt, stream)
    chunk = _Chunk(offset, len(data), _blob_name(job_id, attempt, stream, offset, len(data)))
    world.blobs.write(chunk.blob, io.BytesIO(data))
    world.point("log.blob_written")
    column = _column(stream)
    over: list[_Chunk] = []
    merge: list[_Chunk] = []
    with world.database.write() as session:
        ours = (Attempt.job == job_id, Attempt.number == attempt, Attempt.follow_token == token)
        if change(session, update(Attempt).where(*ours, column == offset).values({column: chunk.end})) == 1:
            _insert(session, job_id, attempt, stream, chunk)
            over = _prune(session, job_id, attempt, stream, chunk.end, world.settings.log_cap)
            merge = _small_ones(session, job_id, attempt, stream)
            stored = chunk.end
        else:
            found = session.execute(select(column).where(*ours)).scalar_one_or_none()
            if found is None:
                raise NotFollowing(f"{job_id} attempt {attempt}")
            stored = found
    for old in over:
        world.blobs.delete(old.blob)
    if len(merge) == _RUN:
        _merge(world, job_id, attempt, stream, merge)
    return stored


def size(world: World, job_id: str, attempt: int, stream: str) -> int:
    """Bytes of the stream that came home so far, those left out by the cap included; 0 where there is nothing."""
    with world.database.read() as session:
        found = session.execute(select(_column(stream)).where(Attempt.job == job_id, Attempt.number == attempt))
        return found.scalar_one_or_none() or 0


def read(world: World, job_id: str, attempt: int, stream: str, offset: int = 0,
         tail_lines: int | None = None, end: int | None = None) -> Iterator[bytes]:
    """The stream's bytes from `offset` to `end` (default: all that is stored), piece by piece.

    offset, end: bytes as the job printed them. tail_lines: only the last lines; an update that ends with a
    carriage return counts as a line. Where the cap left something out, a marker line stands for it.
    """
    total = size(world, job_id, attempt, stream)
    end = total if end is None else min(end, total)
    gap = _gap(total, world.settings.log_cap)
    if tail_lines is not None:
        offset = max(offset, _tail_start(world, job_id, attempt, stream, end, gap, tail_lines))
    left_out = min(end, gap[1]) - max(offset, gap[0])
    yield from _read_kept(world, job_id, attempt, stream, offset, min(end, gap[0]))
    if left_out > 0:
        yield marker(left_out)
    yield from _read_kept(world, job_id, attempt, stream, max(offset, gap[1]), end)


def marker(left_out: int) -> bytes:
    """The line that stands where `left_out` bytes were left out."""
    return b"\n[gpupoor: %d bytes left out here, over the cap of the log]\n" % left_out


def delete_all(world: World, job_id: str) -> None:
    """Forget the logs of all attempts of a job; rows first, so nobody looks for a blob that is gone."""
    with world.database.write() as session:
        names = session.scalars(select(LogChunk.blob).where(LogChunk.job == job_id)).all()
        session.execute(delete(LogChunk).where(LogChunk.job == job_id))
    for name in names:
        world.blobs.delete(name)


def _column(stream: str) -> Any:
    return {"log": Attempt.log_bytes, "stderr": Attempt.stderr_bytes}[stream]


def _blob_name(job_id: str, attempt: int, stream: str, offset: int, length: int) -> str:
    """Offset and length: two followers that read the same bytes write the same blob, others never collide."""
    return f"logs/{job_id}/{attempt}/{stream}/{offset:013d}-{length}"


def _of(job_id: str, attempt: int, stream: str) -> list[Any]:
    return [LogChunk.job == job_id, LogChunk.attempt == attempt, LogChunk.stream == stream]


def _insert(session: Session, job_id: str, attempt: int, stream: str, chunk: _Chunk) -> None:
    session.add(LogChunk(job=job_id, attempt=attempt, stream=stream, offset=chunk.offset, length=chunk.length,
                         blob=chunk.blob))
    session.flush()


def _chunks(session: Session, query: Any) -> list[_Chunk]:
    rows = session.execute(query.with_only_columns(LogChunk.offset, LogChunk.length, LogChunk.blob))
    return [_Chunk(*row) for row in rows]


def _gap(total: int, cap: int) -> tuple[int, int]:
    """The bytes that the cap leaves out: from the end of the first nine tenths to the start of the last tenth."""
    if total <= cap:
        return total, total
    head = cap * 9 // 10
    return head, total - (cap - head)


def _prune(session: Session, job_id: str, attempt: int, stream: str, total: int, cap: int) -> list[_Chunk]:
    """Take out the rows of chunks that lie wholly in the gap; their blobs are the caller's to delete afterwards."""
    start, end = _gap(total, cap)
    if start == end:
        return []
    inside = [*_of(job_id, attempt, stream), LogChunk.offset >= start, LogChunk.offset + LogChunk.length <= end]
    over = _chunks(session, select(LogChunk).where(*inside))
    if over:
        session.execute(delete(LogChunk).where(*inside))
    return over


def _small_ones(session: Session, job_id: str, attempt: int, stream: str) -> list[_Chunk]:
    """The newest chunks in order, when they are so small that one chunk can hold them all; else none."""
    newest = select(LogChunk).where(*_of(job_id, attempt, stream)).order_by(LogChunk.offset.desc()).limit(_RUN)
    run = _chunks(session, newest)[::-1]
    touching = all(one.end == two.offset for one, two in pairwise(run))
    return run if touching and sum(chunk.length for chunk in run) <= CHUNK else []


def _merge(world: World, job_id: str, attempt: int, stream: str, run: list[_Chunk]) -> None:
    """Make one chunk of many small ones: a job that prints a little for days must not leave a file per second."""
    whole = _Chunk(run[0].offset, sum(chunk.length for chunk in run),
                   _blob_name(job_id, attempt, stream, run[0].offset, sum(chunk.length for chunk in run)))
    try:
        data = b"".join(_bytes_of(world, chunk) for chunk in run)
    except KeyError:
        return
    world.blobs.write(whole.blob, io.BytesIO(data))
    world.point("log.merged_blob_written")
    with world.database.write() as session:
        inside = [*_of(job_id, attempt, stream), LogChunk.offset >= whole.offset, LogChunk.offset < whole.end]
        if _chunks(session, select(LogChunk).where(*inside).order_by(LogChunk.offset)) != run:
            return
        session.execute(delete(LogChunk).where(*inside))
        _insert(session, job_id, attempt, stream, whole)
    for chunk in run:
        world.blobs.delete(chunk.blob)


def _bytes_of(world: World, chunk: _Chunk) -> bytes:
    with closing(world.blobs.open(chunk.blob)) as file:
        return file.read()


def _read_kept(world: World, job_id: str, attempt: int, stream: str, offset: int, end: int) -> Iterator[bytes]:
    """Bytes offset..end. A chunk that was merged or pruned between look and open is looked for again."""
    while offset < end:
        with world.database.read() as session:
            holding = [*_of(job_id, attempt, stream), LogChunk.offset + LogChunk.length > offset, LogChunk.offset < end]
            found = _chunks(session, select(LogChunk).where(*holding).order_by(LogChunk.offset).limit(_RUN))
        if not found:
            return
        for chunk in found:
            if chunk.offset > offset:  # pruned meanwhile: the cap took what a slow reader had not read
                yield marker(min(chunk.offset, end) - offset)
                offset = min(chunk.offset, end)
            try:
                file = world.blobs.open(chunk.blob)
            except KeyError:
                break
            with closing(file):
                file.seek(offset - chunk.offset)
                while offset < min(end, chunk.end) and (piece := file.read(min(_PIECE, min(end, chunk.end) - offset))):
                    offset += len(piece)
                    yield piece


def _tail_start(world: World, job_id: str, attempt: int, stream: str, end: int, gap: tuple[int, int],
                lines: int) -> int:
    """The offset at which the last `lines` lines begin; looks at one chunk at a time, from the back."""
    if lines <= 0:
        return end
    wanted, upto, after = lines, end, b""
    while upto > 0:
        if gap[0] < upto <= gap[1]:
            wanted -= 2  # the marker is a line, and ends the one before it
            if wanted < 1:
                return gap[1]
            upto, after = gap[0], b""
            continue
        start = max(upto - CHUNK, gap[1] if upto > gap[1] else 0)
        data = b"".join(_read_kept(world, job_id, attempt, stream, start, upto))
        ends = [match.end() for match in _LINE_END.finditer(data)]
        if ends and ends[-1] == len(data) and (upto == end or (data.endswith(b"\r") and after == b"\n")):
            ends.pop()  # the last line's own end begins no new line
        if len(ends) >= wanted:
            return start + ends[-wanted]
        wanted -= len(ends)
        upto, after = start, data[:1]
    return 0

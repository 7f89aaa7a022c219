"""Which job is meant: an id, a handle, a unique prefix of either, a name, or the newest one of this folder."""

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from jobs.errors import Usage
from orchestrator.db.models import Job

_NEWEST = (Job.submitted_at.desc(), Job.id.desc())
_SHOWN = 5


def find_job(session: Session, text: str | None, folder: str) -> Job:
    """The job that `text` names; with no text the newest job submitted from `folder`. Raises Usage.

    A whole id or handle wins over a name, a name (its newest job) over a prefix. Both worlds are searched.
    """
    if text is None:
        newest = session.scalars(select(Job).where(Job.folder == folder).order_by(*_NEWEST).limit(1)).first()
        if newest is None:
            raise Usage("no job was submitted from this folder; name one (gpupoor status -a shows all)")
        return newest
    if not text:
        raise Usage("an empty name is no job; name one (gpupoor status shows them)")
    exact = session.scalars(select(Job).where(or_(Job.id == text, Job.handle == text)).limit(1)).first()
    named = exact or session.scalars(select(Job).where(Job.name == text).order_by(*_NEWEST).limit(1)).first()
    return named or _by_prefix(session, text)


def _by_prefix(session: Session, text: str) -> Job:
    begins = or_(Job.id.startswith(text, autoescape=True), Job.handle.startswith(text, autoescape=True))
    rows = session.scalars(select(Job).where(begins).order_by(*_NEWEST).limit(_SHOWN + 1)).all()
    # LIKE is blind to case in one database and not in the other
    found = [job for job in rows if job.id.startswith(text) or job.handle.startswith(text)]
    if not found:
        raise Usage(f"no job {text!r}; gpupoor status -a shows all")
    if len(found) > 1:
        more = ", ..." if len(found) > _SHOWN else ""
        raise Usage(f"{text!r} may be {', '.join(job.handle for job in found[:_SHOWN])}{more}; write more of it")
    return found[0]

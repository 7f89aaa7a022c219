"""The root of all errors that are ours; each carries what to do next and an exit code (docs of exit codes: README)."""


class GpupoorError(Exception):
    """Something that a person can act on; its text says what to do next."""

    exit_code = 1


class Usage(GpupoorError):
    """Wrong usage, a wrong job file, or no budget named."""

    exit_code = 2


class InvalidJob(Usage):
    """A job file that cannot be accepted: file:line:column, what is wrong, what would be right."""


class RefusedByLimit(GpupoorError):
    """A limit or a cap of money says no; nothing was queued."""

    exit_code = 3


class Unanswered(GpupoorError):
    """A provider or a service of ours (database, broker) does not answer."""

    exit_code = 9

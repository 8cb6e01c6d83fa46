"""Exceptions and warnings of innokit."""

import atexit
import logging
import warnings

_LOG = logging.getLogger("innokit")
# A library leaves it to its users whether and where its log is seen.
_LOG.addHandler(logging.NullHandler())


class InnokitError(Exception):
    """Files that cannot be used: no key, an unknown format, changed since a split was made."""


class DamageError(InnokitError):
    """Rows that cannot be read.

    path: the file.
    page: number of the page within its tablespace, or None if it is about no page in particular.
    offset: where this page begins in the file, bytes.
    keys: which rows are missing, in words, if it is known.
    """

    def __init__(self, message, path=None, page=None, offset=None, keys=None):
        super().__init__(message, path, page, offset, keys)
        self.path = None if path is None else str(path)
        self.page = page
        self.offset = offset
        self.keys = keys

    def __str__(self):
        return self.args[0]


class StorageError(InnokitError):
    """An object in a bucket could not be read. This says nothing about its content, and is never damage.

    url: the object or prefix.
    reason: "missing" (404), "denied" (401, 403), "changed" (another object has its name since it was found), "unreachable" (no useful answer
        after all tries), "other".
    """

    def __init__(self, message, url=None, reason=None):
        super().__init__(message, url, reason)
        self.url = None if url is None else str(url)
        self.reason = reason

    def __str__(self):
        return self.args[0]


class InternalError(InnokitError):
    """A bug in innokit."""


class DamageWarning(UserWarning):
    """Rows are missing from a scan with ``on_damage="skip"``."""


class PendingWarning(UserWarning):
    """Crash recovery is pending: the server would show other rows than these files."""


class UnreadWarning(UserWarning):
    """A file that should hold a table cannot be read."""


# Each scan has losses of its own. By default a warning that has the same words as an earlier one would be swallowed.
warnings.filterwarnings("always", category=DamageWarning, append=True)


def _tell(message):
    """Rows are missing: called by the native half, on a thread of its own if need be."""
    _LOG.warning(message)
    warnings.warn(message, DamageWarning, stacklevel=2)


def _tell_the_rest():
    from . import _innokit

    _innokit._wait_for_losses()


# A stream that was closed early may still have to say what it left out.
atexit.register(_tell_the_rest)

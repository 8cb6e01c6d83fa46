from typing import Literal

class InnokitError(Exception): ...

class DamageError(InnokitError):
    path: str | None
    page: int | None
    offset: int | None
    keys: str | None
    def __init__(
        self,
        message: str,
        path: object | None = None,
        page: int | None = None,
        offset: int | None = None,
        keys: str | None = None,
    ) -> None: ...

class StorageError(InnokitError):
    url: str | None
    reason: Literal["missing", "denied", "changed", "unreachable", "other"] | None
    def __init__(self, message: str, url: object | None = None, reason: str | None = None) -> None: ...

class InternalError(InnokitError): ...
class DamageWarning(UserWarning): ...
class PendingWarning(UserWarning): ...
class UnreadWarning(UserWarning): ...

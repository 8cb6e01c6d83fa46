from collections.abc import Sequence
from typing import Literal

import daft

from ._innokit import _KeyFile, _KeyRange, _Paths, _StorageOptions

def read_innodb(
    path: _Paths,
    table: str,
    *,
    columns: Sequence[str] | None = None,
    key_range: _KeyRange | None = None,
    on_damage: Literal["raise", "skip", "list"] = "raise",
    keyring: _Paths | None = None,
    key_file: _KeyFile | None = None,
    storage_options: _StorageOptions | None = None,
    target_bytes: int = 67108864,
) -> daft.DataFrame: ...

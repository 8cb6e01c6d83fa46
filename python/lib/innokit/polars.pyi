import polars

from ._innokit import _KeyFile, _KeyRange, _Paths, _StorageOptions

def scan_innodb(
    path: _Paths,
    table: str,
    *,
    key_range: _KeyRange | None = None,
    keyring: _Paths | None = None,
    key_file: _KeyFile | None = None,
    storage_options: _StorageOptions | None = None,
    threads: int | None = None,
) -> polars.LazyFrame: ...

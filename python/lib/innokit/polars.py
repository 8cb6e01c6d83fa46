"""Tables as LazyFrames of Polars: columns, limits and filters reach the scan."""

from __future__ import annotations

from . import open as _open

__all__ = ["scan_innodb"]

#: Bytes of leaf pages read at a time, which bounds the memory of a streaming query.
_PART_BYTES = 64 << 20


def scan_innodb(path, table, *, key_range=None, keyring=None, key_file=None, threads=None):
    """The table as a LazyFrame.

    path, keyring, key_file: as for ``innokit.open``.
    table: ``"schema.name"``.
    key_range: as for ``Table.scan``. A filter is applied to the rows as they are read, but does not spare reading pages: this does.
    threads: all cores if None.

    Only the columns of the query are read, and no more rows than it wants. Damage raises DamageError, or what Polars makes of it.
    """
    import polars
    from polars.io.plugins import register_io_source

    source = _open(path, keyring=keyring, key_file=key_file).table(table)
    source.scan(key_range=key_range)  # mistakes are raised here, not in the query

    def parts(with_columns, predicate, n_rows, batch_size):
        # Rows without columns must still be counted.
        columns = with_columns if with_columns != [] else source.schema.names[:1]
        left = n_rows
        for split in source.splits(target_bytes=_PART_BYTES, key_range=key_range):
            if left == 0:
                return
            frame = polars.DataFrame(split.scan(columns, limit=left, threads=threads))
            if left is not None:
                left -= frame.height
            # Polars applies the limit before the filter.
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame

    return register_io_source(parts, schema=dict(polars.DataFrame(source.scan(limit=0)).schema), is_pure=False)

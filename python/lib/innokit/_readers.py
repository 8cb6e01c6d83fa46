"""Methods that hand rows to the libraries that most programs use. None of them is required: each is imported when it is asked for.

They are not written in Rust: pyarrow lets go of the interpreter while it reads a stream, and a native method below it on the stack would
still count on having it.
"""

from __future__ import annotations


def to_arrow(self):
    """All rows as a ``pyarrow.Table``."""
    import pyarrow

    return pyarrow.table(self)


def to_polars(self):
    """All rows as a ``polars.DataFrame``."""
    import polars

    return polars.DataFrame(self)


def to_pandas(self):
    """All rows as a ``pandas.DataFrame``, by way of pyarrow."""
    return to_arrow(self).to_pandas()


def to_dataset(self, *, threads=None, on_damage="raise"):
    """As a ``pyarrow.dataset.Dataset``, which DuckDB and others query: columns, and filters on the key, reach the pages."""
    from .dataset import InnodbDataset

    return InnodbDataset(self, threads=threads, on_damage=on_damage)


def equip(*classes, dataset=()):
    """Gives the methods to native classes."""
    for made in dataset:
        made.to_dataset = to_dataset
    for made in classes:
        for method in (to_arrow, to_polars, to_pandas):
            setattr(made, method.__name__, method)

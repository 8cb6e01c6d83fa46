from typing import Any, Literal

import pyarrow.dataset

from ._innokit import Split, Table

class InnodbDataset(pyarrow.dataset.Dataset):
    """A table, or a split of one, as a ``pyarrow.dataset.Dataset``.

    A filter that compares the first column of the primary key with whole numbers, decimals, dates or datetimes reads only the pages that can
    hold such keys. Each filter is applied to the rows, whatever it made of the pages.

    What a dataset of files has beyond rows (fragments, partitions, joins) raises NotImplementedError.
    """

    def __init__(
        self, source: Table | Split, *, threads: int | None = None, on_damage: Literal["raise", "skip"] = "raise"
    ) -> None: ...
    def scanner(self, columns: Any = None, filter: Any = None, batch_size: int = 65536, **_options: Any) -> Any: ...
    def head(self, num_rows: int, columns: Any = None, filter: Any = None, **options: Any) -> Any: ...

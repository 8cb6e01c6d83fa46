from collections.abc import Sequence
from typing import Any, Literal

from ray.data import Dataset, Datasource, ReadTask
from ray.data.context import DataContext

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
    override_num_blocks: int | None = None,
    concurrency: int | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset: ...

class InnoDBDatasource(Datasource):
    def estimate_inmemory_data_size(self) -> int | None: ...
    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]: ...

from ._errors import DamageError as DamageError
from ._errors import DamageWarning as DamageWarning
from ._errors import InnokitError as InnokitError
from ._errors import InternalError as InternalError
from ._errors import PendingWarning as PendingWarning
from ._errors import StorageError as StorageError
from ._errors import UnreadWarning as UnreadWarning
from ._innokit import Database as Database
from ._innokit import Field as Field
from ._innokit import Report as Report
from ._innokit import Scan as Scan
from ._innokit import Schema as Schema
from ._innokit import Split as Split
from ._innokit import Table as Table
from ._innokit import check as check
from ._innokit import open as open

__version__: str

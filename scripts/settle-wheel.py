"""Writes a wheel again with the bytes that every build of its commit has: settle-wheel.py WHEEL FOLDER SOURCE PATH...

maturin's bill of materials names our crates by the folder they were built in: it names them by /innokit here. Entries are sorted, and
have the date SOURCE_DATE_EPOCH. A wheel is refused if one of its files still has SOURCE or another PATH in it.
"""

import base64
import hashlib
import os
import pathlib
import sys
import time
import zipfile


def settle(wheel, folder, source, *others):
    with zipfile.ZipFile(wheel) as archive:
        modes = {entry.filename: entry.external_attr for entry in archive.infolist()}
        files = {name: archive.read(name) for name in sorted(modes)}
    for name in files:
        if "/sboms/" in name:
            files[name] = files[name].replace(f"file://{source}".encode(), b"file:///innokit")
        for path in (source, *others):
            if path.encode() in files[name]:
                sys.exit(f"settle-wheel: {name} has the path {path}")
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    del files[record]
    files[record] = listed(files, record)  # last, as the format of wheels recommends
    date = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(folder / wheel.name, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = modes[name]
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)


def listed(files, record):
    """The list of files with their hashes, by which pip verifies them."""
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(rows + [f"{record},,\n"]).encode()


if __name__ == "__main__":
    settle(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), *sys.argv[3:])

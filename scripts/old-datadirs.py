#!/usr/bin/env python3
"""Checks the old datadirs that MySQL's own test suites come with, and lists those that are not all well.

    old-datadirs.py [--dir DIR] [NAME ...]      all, or only the archives of these names

Each archive is unpacked, and given to `innokit check` and `innokit table check`: as a whole if its system tablespace, log and tables are in several
folders. docs/catalog.md has the outcome. It needs scripts/install-suites.sh mysql, and the program: INNOKIT=target/release/innokit.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import zipfile

CACHE = pathlib.Path(os.environ.get("INNOKIT_SERVERS", pathlib.Path.home() / ".cache/innokit"))
SUITES = CACHE / "suites/mysql/usr/lib/mysql-test"
INNOKIT = os.environ.get("INNOKIT", "target/release/innokit")


def findings(words, folder):
    done = subprocess.run([INNOKIT, *words, "--json", folder], capture_output=True, text=True, check=False)
    document = json.loads(done.stdout or "{}")
    named = [finding for finding in document.get("findings", []) if finding["severity"] != "notice"]
    said = [f"{finding['severity']}: {finding['path'][len(str(folder)) + 1:]}: {finding['message'][:160]}" for finding in named]
    said += [f"failed: {file['path']}: {file['error'][:120]}" for file in document.get("files", []) if file["error"]]
    return done.returncode, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path(os.environ.get("TMPDIR", "/tmp")))
    args = parser.parse_args()
    counts = collections.Counter()
    for archive in sorted(SUITES.rglob("*.zip")):
        if args.names and archive.stem not in args.names:
            continue
        folder = args.dir / "old-datadir"
        shutil.rmtree(folder, ignore_errors=True)
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
        if not any(folder.rglob("ib*")) and not any(folder.rglob("*.ibd")):
            counts["no InnoDB"] += 1
            continue
        outcomes = [findings(words, folder) for words in (["check"], ["table", "check"])]
        counts[tuple(status for status, _ in outcomes)] += 1
        for words, (status, said) in zip(("check", "table check"), outcomes):
            if status:
                print(f"{archive.stem}: {words}: {status}", *said[:6], sep="\n    ", flush=True)
        shutil.rmtree(folder)
    for status, count in sorted(counts.items(), key=str):
        print(count, status)


if __name__ == "__main__":
    main()

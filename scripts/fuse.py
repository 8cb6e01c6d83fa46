#!/usr/bin/env python3
"""A file system for tests, of one file or of a folder: some of its bytes fail, and reads may come in short. Nothing can be written.

    fuse.py MOUNTPOINT FILE|FOLDER [--eio OFFSET] [--short OFFSET] [--most N] [--cached]

        --eio OFFSET     a read that touches the 16 KiB at OFFSET fails with EIO, and no other
        --short OFFSET   a read that begins before OFFSET and reaches beyond it ends there; the next one goes on
        --most N         no read brings more than N bytes
        --cached         through the page cache; without it the kernel passes every read on (direct_io). A short reply is then the file's end:
                         not with --short or --most

A file has its own name in MOUNTPOINT, a folder is MOUNTPOINT. Speaks the kernel's protocol (linux/fuse.h, 7.31) on /dev/fuse, so it needs no library, but root.
Prints "ready" once it is mounted, and ends when its standard input does. Exit status: 0 it was unmounted, 77 FUSE cannot be used here.
"""

import argparse
import ctypes
import errno
import os
import select
import stat
import struct
import sys

PAGE = 16384
WRITE_MAX = 1 << 17
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, BATCH_FORGET = 1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 28, 29, 42
DIRECT_IO = 1
NODE_ROOT = 1
SKIPPED = 77


class Tree:
    """A folder and all below it, or a folder that holds one file."""

    def __init__(self, args):
        self.args = args
        self.top = os.path.abspath(args.file)
        self.single = None if os.path.isdir(self.top) else os.path.basename(self.top)
        self.paths, self.nodes, self.open = {NODE_ROOT: ""}, {"": NODE_ROOT}, {}

    def real(self, path):
        if self.single is not None:
            return self.top if path else os.path.dirname(self.top)
        return os.path.join(self.top, path)

    def node(self, path):
        if path not in self.nodes:
            self.nodes[path] = len(self.paths) + 1
            self.paths[self.nodes[path]] = path
        return self.nodes[path]

    def attributes(self, node):
        found = os.stat(self.real(self.paths[node]))
        mode, size = (stat.S_IFDIR | 0o755, 4096) if stat.S_ISDIR(found.st_mode) else (stat.S_IFREG | 0o644, found.st_size)
        time, rest = divmod(found.st_mtime_ns, 10**9)
        # ino, size, blocks, three times, three times' nanoseconds, mode, links, uid, gid, device, block size, flags
        return struct.pack("<6Q10I", node, size, (size + 511) // 512, time, time, time, rest, rest, rest, mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, code, node, body):
        """The reply's bytes, or the number of an error."""
        if code == INIT:
            major, minor, ahead, flags = struct.unpack_from("<4I", body)
            # No flags: no read-ahead by several threads, no splice. 64 bytes since 7.23.
            return struct.pack("<4IHHIIHHI7I", 7, min(minor, 31), ahead, 0, 16, 12, WRITE_MAX, 1, 32, 0, 0, *[0] * 7)
        if code == LOOKUP:
            name = os.fsdecode(body.rstrip(b"\0"))
            path = os.path.join(self.paths[node], name)
            if self.single not in (None, name) or not os.path.exists(self.real(path)):
                return errno.ENOENT
            found = self.node(path)
            return struct.pack("<4Q2I", found, 0, 1, 1, 0, 0) + self.attributes(found)
        if code == GETATTR:
            return struct.pack("<Q2I", 1, 0, 0) + self.attributes(node)
        if code in (OPEN, OPENDIR):
            # Nothing is written here.
            if code == OPEN and struct.unpack_from("<I", body)[0] & os.O_ACCMODE != os.O_RDONLY:
                return errno.EROFS
            direct = code == OPEN and not self.args.cached
            return struct.pack("<Q2I", 0, DIRECT_IO if direct else 0, 0)
        if code == READ:
            return self.read(node, *struct.unpack_from("<QQI", body)[1:])
        if code == READDIR:
            return self.listed(node, *struct.unpack_from("<QQI", body)[1:])
        if code == STATFS:
            return struct.pack("<5Q4I24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
        return b"" if code in (RELEASE, RELEASEDIR, FLUSH) else errno.ENOSYS

    def listed(self, node, offset, size):
        """Entries from the one with the number `offset` on, as many as fit."""
        path, bytes_ = self.paths[node], b""
        names = sorted(os.listdir(self.real(path))) if self.single is None else [self.single]
        for number, name in list(enumerate(names, 1))[offset:]:
            child = os.path.join(path, name)
            kind, encoded = (stat.S_IFDIR if os.path.isdir(self.real(child)) else stat.S_IFREG) >> 12, os.fsencode(name)
            entry = struct.pack("<2Q2I", self.node(child), number, len(encoded), kind) + encoded
            entry += bytes(-len(entry) % 8)
            if len(bytes_) + len(entry) > size:
                break
            bytes_ += entry
        return bytes_

    def read(self, node, offset, size):
        end, eio, short = offset + size, self.args.eio, self.args.short
        if eio is not None and offset < eio + PAGE and eio < end:
            return errno.EIO
        if short is not None and offset < short < end:
            end = short
        if self.args.most is not None:
            end = min(end, offset + self.args.most)
        if node not in self.open:
            self.open[node] = os.open(self.real(self.paths[node]), os.O_RDONLY)
        return os.pread(self.open[node], end - offset, offset)


def serve(device, tree):
    while True:
        readable, _, _ = select.select([device, sys.stdin], [], [])
        if sys.stdin in readable and not os.read(sys.stdin.fileno(), 1):
            return
        if device not in readable:
            continue
        try:
            request = os.read(device, WRITE_MAX + 4096)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                continue
            return
        _, code, unique, node = struct.unpack_from("<2I2Q", request)
        if code in (FORGET, BATCH_FORGET):
            continue
        reply = tree.answer(code, node, request[40:])
        status, reply = (-reply, b"") if isinstance(reply, int) else (0, reply)
        os.write(device, struct.pack("<IiQ", 16 + len(reply), status, unique) + reply)


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("mountpoint")
    parser.add_argument("file")
    parser.add_argument("--eio", type=int)
    parser.add_argument("--short", type=int)
    parser.add_argument("--most", type=int)
    parser.add_argument("--cached", action="store_true")
    args = parser.parse_args()
    tree = Tree(args)
    libc = ctypes.CDLL(None, use_errno=True)
    target = args.mountpoint.encode()
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,max_read={WRITE_MAX}".encode()
        if libc.mount(b"innokit-test", target, b"fuse.innokit", 0, options) != 0:
            raise OSError(ctypes.get_errno(), "mount")
    except OSError as error:
        print(f"fuse.py: skipped: {error}")
        return SKIPPED
    print("ready", flush=True)
    try:
        serve(device, tree)
    finally:
        # Detached at once, also if somebody has it open.
        libc.umount2(target, 2)
        os.close(device)
    return 0


if __name__ == "__main__":
    sys.exit(main())

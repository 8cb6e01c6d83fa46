"""A real S3 server over its own folder, like crates/innokit/tests/cloud_lab."""

import json
import os
import pathlib
import socket
import subprocess
import threading
import time
import typing

from conftest import REPOSITORY

#: The accounts: the owner may do everything, the guest only what policies allow.
OWNER, READER = ("owner", "ownersecret"), ("reader", "readersecret")
#: Generous, because a busy machine starts a server slowly.
PATIENCE = 120


def program():
    """versitygw, which the script builds."""
    subprocess.run([REPOSITORY / "scripts/install-cloud.sh"], check=True)
    cache = os.environ.get("INNOKIT_SERVERS") or pathlib.Path.home() / ".cache/innokit"
    return pathlib.Path(cache) / "cloud/versitygw"


class Buckets:
    """The server, with one bucket `lab`. This process and its children read from it as the owner."""

    def __init__(self, folder):
        self.folder, self.server, self.counted, self.changed = folder, None, 0, {}
        for name in ("buckets/lab", "notes", "accounts", "home"):
            (folder / name).mkdir(parents=True)
        name, secret = READER
        account = {"access": name, "secret": secret, "role": "user", "userID": 0, "groupID": 0}
        (folder / "accounts/users.json").write_text(json.dumps({"accessAccounts": {name: account}}))
        self.program = program()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()
        # None of the machine's own settings.
        for name in list(os.environ):
            if name.startswith("AWS_") or name.lower().endswith("_proxy"):
                self.set(name, None)
        for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
            self.set(name, str(folder / "home/none"))
        self.relay = Relay(self.port)
        self.set("AWS_ENDPOINT_URL", f"http://127.0.0.1:{self.relay.port}")
        # Few retries, so that failures are quick.
        self.set("INNOKIT_CLOUD_RETRIES", "2")
        self.sign_in(OWNER)

    def set(self, name, value):
        self.changed.setdefault(name, os.environ.get(name))
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value

    def sign_in(self, account):
        self.set("AWS_ACCESS_KEY_ID", account[0])
        self.set("AWS_SECRET_ACCESS_KEY", account[1])

    def start(self):
        command = [self.program, "--port", f"127.0.0.1:{self.port}", "--access", OWNER[0], "--secret", OWNER[1], "--quiet"]
        command += ["--access-log", self.folder / "log", "--iam-dir", self.folder / "accounts"]
        # Object metadata goes to files, because not every file system has extended attributes.
        command += ["posix", "--bucketlinks", "--sidecar", self.folder / "notes", self.folder / "buckets"]
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.server is None or self.server.poll() is not None:
                self.server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise TimeoutError("the S3 server never listened")

    def stop(self):
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            self.server = None

    def close(self):
        self.stop()
        self.relay.listener.close()
        for name, value in self.changed.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    def ask(self, path, *arguments):
        """Sends a request as the owner."""
        command = ["curl", "-sS", "--fail-with-body", "--noproxy", "*", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", ":".join(OWNER)]
        command += ["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", *arguments, f"http://127.0.0.1:{self.port}/{path}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def put(self, key, file):
        """Uploads an object through the server, so it has an ETag. Returns its URL."""
        self.ask(f"lab/{key}", "-T", str(file))
        return f"s3://lab/{key}"

    def delete(self, key):
        self.ask(f"lab/{key}", "-X", "DELETE")

    def allow(self, statements):
        """Grants the guest the given pairs of action and resource."""
        name = READER[0]
        said = [
            {"Effect": "Allow", "Principal": {"AWS": [name]}, "Action": [action], "Resource": [f"arn:aws:s3:::{resource}"]}
            for action, resource in statements
        ]
        self.ask("lab?policy=", "-X", "PUT", "-d", json.dumps({"Version": "2012-10-17", "Statement": said}))

    def link(self, name, folder):
        """Serves a folder of this system as a bucket. Its objects have no ETags. Returns its URL."""
        link = self.folder / "buckets" / name
        if not link.is_symlink():
            link.symlink_to(folder)
        return f"s3://{name}"

    def requests(self):
        """Since the last call: object reads, other requests, and bytes sent to readers."""
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        new, self.counted = lines[self.counted :], len(lines)
        sent = self.relay.take()
        reads = sum("s3_GetObject " in line for line in new)
        return Requests(reads, len(new) - reads, sent)


class Requests(typing.NamedTuple):
    reads: int
    others: int
    bytes: int


class Relay:
    """Forwards connections to a port, and counts the returned bytes."""

    def __init__(self, to):
        self.to, self.sent, self.lock = to, 0, threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def take(self):
        """Bytes since the last call."""
        with self.lock:
            sent, self.sent = self.sent, 0
        return sent

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.connect, args=[client], daemon=True).start()

    def connect(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.to))
        except OSError:
            client.close()
            return
        with client, server:
            other = threading.Thread(target=self.copy, args=[client, server, False], daemon=True)
            other.start()
            self.copy(server, client, True)
            other.join()

    def copy(self, source, target, is_counted):
        try:
            while data := source.recv(1 << 16):
                if is_counted:
                    with self.lock:
                        self.sent += len(data)
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

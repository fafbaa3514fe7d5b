"""A real S3 server for tests: moto's, in a process of its own.

A test module that uses it says `pytest_plugins = ["tests.s3"]`, and its tests take the fixture `s3_bucket`.
"""

import contextlib
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any

import pytest

_KEY = "anyone"


@dataclass(frozen=True)
class Bucket:
    """An empty bucket; the AWS_* variables of the environment lead to it."""

    name: str
    client: Any
    """boto3's, to look at the bucket past the code under test."""

    @property
    def uri(self) -> str:
        return f"s3://{self.name}"

    def put(self, key: str, content: bytes | str) -> None:
        """Store an object under any key that S3 allows."""
        self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def get(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=self.name, Key=key)["Body"].read())

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=key)

    def all_keys(self) -> list[str]:
        """Of the first page, sorted."""
        return [found["Key"] for found in self.client.list_objects_v2(Bucket=self.name).get("Contents", [])]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let the server check who asks: it knows no one, so every request is refused."""
        self._check_access(after="0")
        try:
            yield
        finally:
            self._check_access(after="inf")

    def _check_access(self, after: str) -> None:
        connection = HTTPConnection(self.client.meta.endpoint_url.removeprefix("http://"))
        connection.request("POST", "/moto-api/reset-auth", after, {"Content-Type": "text/plain"})
        assert connection.getresponse().status == HTTPStatus.OK
        connection.close()


@pytest.fixture(scope="session")
def s3_client() -> Iterator[Any]:
    """A server with boto3's client for it; stopped at the end of the session.

    A process of its own: a library that waits for an answer without letting other threads run would wait for ever for
    a server in one of them.
    """
    import boto3

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, server)
        yield boto3.client(
            "s3",
            region_name="us-east-1",
            endpoint_url=f"http://127.0.0.1:{port}",
            aws_access_key_id=_KEY,
            aws_secret_access_key=_KEY,
        )
    finally:
        server.kill()
        server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "the S3 server did not start"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError("the S3 server does not answer")


@pytest.fixture
def s3_bucket(s3_client: Any, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A new bucket, with the environment that leads to it."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _KEY,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_client.meta.endpoint_url,
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{uuid.uuid4()}"
    s3_client.create_bucket(Bucket=name)
    return Bucket(name, s3_client)

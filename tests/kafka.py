"""A real Kafka protocol for tests: librdkafka's own mock cluster, on loopback, in the test process.

A test module that uses it says `pytest_plugins = ["tests.kafka"]`, and its tests take the fixture `kafka`.
Each topic begins to exist with its first message, and has four partitions.
"""

import socket
import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, Producer, TopicPartition

PARTITIONS = 4


class MockKafka:
    """One broker, which lives as long as this object; other processes reach it, too."""

    def __init__(self, **settings: int) -> None:
        self._producer = Producer(
            {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "linger.ms": 0, "log_level": 0, **settings}
        )
        brokers = self._producer.list_topics(timeout=30).brokers.values()
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def send(self, topic: str, *values: bytes | None, partition: int = 0, **more: object) -> None:
        """Let messages be stored, in this order; `more` goes to `Producer.produce`."""
        failures: list[object] = []
        for value in values:
            self._producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
                **more,
            )
        left = self._producer.flush(60)
        assert (left, failures) == (0, [])

    def send_in_transaction(self, topic: str, *values: bytes) -> None:
        """The same in a transaction of its own, which takes up an offset for its end."""
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": topic, "log_level": 0})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.commit_transaction(30)

    def send_with_header(self, topic: str, value: bytes, header: bytes) -> None:
        """The same for one message with a header's name of any bytes, which the client library cannot send."""
        record = b"\0\0\0" + _varint(-1) + _with_length(value) + _varint(1) + _with_length(header) + _with_length(b"")
        batch = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + _with_length(record)
        batch = struct.pack(">ibI", -1, 2, _crc32c(batch)) + batch
        batch = struct.pack(">qi", 0, len(batch)) + batch
        name = struct.pack(">h", len(topic)) + topic.encode()
        request = struct.pack(">hhihhhii", 0, 3, 1, -1, -1, -1, 10_000, 1) + name
        request += struct.pack(">iii", 1, 0, len(batch)) + batch
        host, port = self.servers.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(1 << 16)
        error = answer[4 + 4 + 4 + len(name) + 4 + 4 :][:2]
        assert error == b"\0\0", answer

    def committed(self, topic: str, group: str) -> dict[int, int]:
        """The group's committed offsets by partition, where there is one."""
        with self._consumer(group) as consumer:
            asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            return {at.partition: at.offset for at in consumer.committed(asked, 30) if at.offset != OFFSET_INVALID}

    def commit(self, topic: str, group: str, partition: int, offset: int) -> None:
        """Let someone else commit an offset."""
        with self._consumer(group) as consumer:
            consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)

    def _consumer(self, group: str) -> Consumer:
        return Consumer({"bootstrap.servers": self.servers, "group.id": group, "log_level": 0})


def _varint(number: int) -> bytes:
    number = number << 1 ^ number >> 63
    content = b""
    while number > 0x7F:
        content += bytes([number & 0x7F | 0x80])
        number >>= 7
    return content + bytes([number])


def _with_length(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _crc32c(content: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.fixture(scope="session")
def kafka() -> Iterator[MockKafka]:
    yield MockKafka()

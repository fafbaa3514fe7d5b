"""Messages of a Kafka topic: each pull lands a bounded batch, one file a partition, every message exactly once.

What the messages mean belongs to the callers; how files appear, to `landing_writer.py`.

A file is named `<group>@<topic>-<partition>-<start>.jsonl`: `start` is where its pull began to
read, which is where the file before it ended (0 at the very beginning). The next start is the offset of the last line
of the partition's newest file, plus one; the group's committed offset counts where it is greater, or where nothing
has landed. Offsets are committed only when the file is durable, so a crash in between loses nothing, and doubles
nothing either, since the landed file counts. Another `group` begins anew.

Two pulls at once work out the same start, hence the same name, and a name can land only once: the slower one
lands nothing. That is why the name does not tell the last offset; two batches that overlap would not collide. A name
is taken within its day only, so each pull looks once more, right before landing, whether another one was faster
beyond midnight.

A commit carries the newest file's URI and size as its metadata. Where they still fit, the committed offset is the end
of that file, and neither its content nor any older day is looked at. Where everything is committed, no file is.

Offsets are not contiguous (transactions, compaction), so nothing here counts on it.
"""

import logging
import re
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final, cast

from resources.errors import ConfigurationError, ResourceError, ServerUnavailableError
from resources.landing_writer import AlreadyLandedError, LandingWriter
from resources.landing_zone import LandedFile, LandingZoneResource
from resources.pulled_sources import Pulled
from resources.pulled_sources.kafka_lines import last_offset, record_line

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

_DAYS_BACK: Final = 100
"""So many days of the zone are searched for a partition's newest file, where no commit tells its day."""

_GROUP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A group is part of file names, so it is kept plain."""

_REASONS: Final = ("_AUTHENTICATION", "_SSL", "_RESOLVE", "_TRANSPORT")
"""librdkafka's names of what may keep a broker from answering, the most telling first."""

_SECRET: Final = re.compile(r"password|secret|key|token|oauthbearer")
_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class KafkaSource:
    """A topic whose messages land as JSON lines.

    A line is `{"partition":…,"offset":…,"timestamp":…,"key":…,"value":…}`, where `value` is the message's JSON object
    as it was written. A message whose value is no JSON object lands, too, as `!{…,"problem":…,"value_base64":…}`: no
    JSON, so that readers of the file put the line aside as it stands.
    """

    name: str
    """Of the source; its folder in the landing zone."""
    servers: str
    """host:port of the brokers to begin with, separated by commas."""
    topic: str
    group: str = "feedback-platform"
    """Consumer group that offsets are committed for."""
    messages_per_pull: int = 10_000
    """Shared among the partitions that hold something new; the rest waits for the next pull."""
    wait_s: float = 5
    """Longest time that messages are read, in seconds."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More of librdkafka's settings."""
    answer_s: float = 10
    """Longest wait for each answer about the topic and the group, in seconds."""

    def pull(self, zone: LandingZoneResource, now: datetime) -> Pulled:
        """Land what the topic holds now, up to the bounds, in the day of `now` (UTC), or of a newer file.

        `more` is true where messages that were there at the beginning are left, or another pull was faster.

        Raises:
            ConfigurationError: a setting or a right is wrong, there is no such topic, it was created anew, or the
                landing zone cannot be written.
            ServerUnavailableError: the brokers do not answer.
        """
        from confluent_kafka import KafkaException

        heard: dict[str, str] = {}
        consumer = self._consumer(heard)
        try:
            return _Pull(self, consumer, zone, now.astimezone(UTC).date()).run()
        except KafkaException as error:
            consumer.poll(0)  # lets the client tell why it got no answer
            raise self._explained(error, heard) from error
        finally:
            consumer.close()

    def _consumer(self, heard: dict[str, str]) -> "Consumer":
        from confluent_kafka import Consumer, KafkaError, KafkaException

        def hear(error: KafkaError) -> None:
            heard.setdefault(error.name(), error.str())

        if not _GROUP.fullmatch(self.group):
            raise ConfigurationError(
                f"source {self.name}: group {self.group!r} cannot be part of a file name: use letters, digits, ., _ "
                "and -, beginning with a letter or a digit"
            )
        ours = {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "error_cb": hear,
            # So long does a commit wait for the group's coordinator.
            "session.timeout.ms": round(self.answer_s * 1000),
        }
        if taken := sorted(ours.keys() & self.properties.keys()):
            raise ConfigurationError(f"source {self.name}: `properties` may not set {', '.join(taken)}: take it out")
        try:
            # The client's many lines on each failed connection are left out: `_explained` says it in one.
            return Consumer({"log_level": "2", **self.properties, **ours}, logger=_LOG)
        except (KafkaException, TypeError, ValueError) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            # Without its cause, which may show a secret in a traceback.
            raise ConfigurationError(
                f"source {self.name}: {self._masked(reason)}: correct its `properties` in config/sources.yaml"
            ) from None

    def _explained(self, exception: "KafkaException", heard: Mapping[str, str]) -> ResourceError:
        from confluent_kafka import KafkaError

        error: KafkaError = exception.args[0]
        place = f"source {self.name}: topic {self.topic} at {self.servers}"
        if error.code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.TOPIC_EXCEPTION}:
            return ConfigurationError(f"{place}: there is no such topic: correct `topic`, or create it")
        if error.code() in {
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        }:
            return ConfigurationError(
                f"{place}: {self._masked(error.str())}: allow its user to read the topic and to use group {self.group}"
            )
        # Where there is no answer, what was heard before tells why.
        silence = error.code() in {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}
        reasons = {name: heard[name] for name in _REASONS if silence and name in heard} or {error.name(): error.str()}
        name, reason = next(iter(reasons.items()))
        reason = self._masked(reason)
        if name in {"_AUTHENTICATION", "_SSL"}:
            return ConfigurationError(f"{place}: {reason}: correct the security settings among its `properties`")
        return ServerUnavailableError(
            f"{place} cannot be read now ({reason}): check that the brokers run, and the source's `servers`"
        )

    def _masked(self, text: str) -> str:
        for name, value in self.properties.items():
            if value and _SECRET.search(name):
                text = text.replace(value, "***")
        return " ".join(text.split())


@dataclass
class _Partition:
    """A partition with messages to read: offsets from `start` up to, not including, `end`."""

    number: int
    start: int
    end: int
    newest: LandedFile | None
    writer: LandingWriter | None = None
    position: int = 0
    """The offset after the last message taken."""
    finished: bool = False

    @property
    def taken(self) -> int:
        return self.writer.records if self.writer else 0


@dataclass
class _Pull:
    """One pull under way."""

    source: KafkaSource
    consumer: "Consumer"
    zone: LandingZoneResource
    day: date
    warnings: list[str] = field(default_factory=list)
    commits: "dict[int, TopicPartition]" = field(default_factory=dict)

    def run(self) -> Pulled:
        partitions = self._partitions()
        landed: list[LandedFile] = []
        records = 0
        with ExitStack() as writers:
            self._read(partitions, writers)
            overtaken = self._overtaken([partition for partition in partitions if partition.writer])
            for partition in partitions:
                if partition.writer is None or partition.number in overtaken:
                    continue
                try:
                    file = partition.writer.land()
                except AlreadyLandedError:
                    overtaken.add(partition.number)
                    continue
                if file is not None:
                    landed.append(file)
                    records += partition.taken
                    self._commit_later(partition.number, partition.position, file)
        self._commit()
        return Pulled(
            landed=landed,
            records=records,
            more=bool(overtaken) or not all(partition.finished for partition in partitions),
            warnings=tuple(self.warnings),
        )

    def _partitions(self) -> list[_Partition]:
        """The partitions that hold something new, each with where to go on."""
        numbers = self._numbers()
        committed = {at.partition: at for at in self._committed(numbers)}
        bounds = {number: self._bounds(number) for number in numbers}
        waiting = {
            number: _day_of_mark(committed[number].metadata)
            for number, (low, high) in bounds.items()
            if low < high and committed[number].offset < high
        }
        for number in numbers:
            self._refuse_a_new_topic(number, committed[number].offset, bounds[number][1])
        newest = self._newest(waiting)
        partitions = []
        for number in waiting:
            low, high = bounds[number]
            file = newest.get(number)
            start = self._start(committed[number], file)
            self._refuse_a_new_topic(number, start, high)
            if 0 < start < low:
                self._warn(number, f"the topic's retention deleted offsets {start} to {low - 1} before they were read")
            if start < high:
                partitions.append(_Partition(number, start, high, file, position=max(start, low)))
        return partitions

    def _numbers(self) -> list[int]:
        from confluent_kafka import KafkaException

        topic = self.consumer.list_topics(self.source.topic, timeout=self.source.answer_s).topics[self.source.topic]
        if topic.error is not None:
            raise KafkaException(topic.error)
        return sorted(topic.partitions)

    def _committed(self, numbers: list[int]) -> "list[TopicPartition]":
        asked = [self._at(number) for number in numbers]
        return _checked(self.consumer.committed(asked, timeout=self.source.answer_s))

    def _bounds(self, number: int) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last."""
        return self.consumer.get_watermark_offsets(self._at(number), timeout=self.source.answer_s)

    def _start(self, committed: "TopicPartition", newest: LandedFile | None) -> int:
        if newest is None:
            return max(committed.offset, 0)
        if committed.metadata == _mark(newest):
            return committed.offset
        with self.zone.fetch(newest) as path:
            end = last_offset(path, newest.uri) + 1
        if committed.offset > end:
            self._warn(
                committed.partition,
                f"offsets {end} to {committed.offset - 1} were skipped, as group {self.source.group} was moved on by "
                "others: give the source a `group` of its own",
            )
            return committed.offset
        self._commit_later(committed.partition, end, newest)
        return end

    def _newest(self, since: Mapping[int, date | None]) -> dict[int, LandedFile]:
        """Each partition's newest file, looked for back to the day given, or `_DAYS_BACK`."""
        named = re.compile(rf"{re.escape(self._prefix)}(\d+)-(\d+)\.jsonl")
        found: dict[int, LandedFile] = {}
        for day in reversed(self.zone.days()[-_DAYS_BACK:]):
            wanted = {number for number, first in since.items() if first is None or first <= day} - found.keys()
            if not wanted:
                break
            starts: dict[int, int] = {}
            for file in self.zone.files_of(self.source.name, day):
                if (parts := named.fullmatch(file.name)) and (number := int(parts[1])) in wanted:
                    start = int(parts[2])
                    if start >= starts.get(number, 0):
                        starts[number] = start
                        found[number] = file
        return found

    def _overtaken(self, partitions: list[_Partition]) -> set[int]:
        """The partitions of which another pull has landed something since this one began."""
        eve = self.day - timedelta(days=1)
        since: dict[int, date | None] = {
            partition.number: partition.newest.day if partition.newest else eve for partition in partitions
        }
        now = self._newest(since)
        return {one.number for one in partitions if _uri(now.get(one.number)) != _uri(one.newest)}

    def _read(self, partitions: list[_Partition], writers: ExitStack) -> None:
        from confluent_kafka import KafkaError, KafkaException

        shares = _shares({one.number: one.end - one.position for one in partitions}, self.source.messages_per_pull)
        reading = {one.number: one for one in partitions if shares[one.number]}
        self.consumer.assign([self._at(one.number, one.position) for one in reading.values()])
        deadline = time.monotonic() + self.source.wait_s
        heard_of_any = not reading
        while reading and (left := deadline - time.monotonic()) > 0:
            message = self.consumer.poll(left)
            if message is None:
                continue
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            heard_of_any = True
            number, offset = cast("tuple[int, int]", (message.partition(), message.offset()))
            partition = reading.get(number)
            if partition is None:
                continue
            partition.finished = error is not None or offset >= partition.end - 1
            if error is None:
                if partition.writer is None:
                    partition.writer = writers.enter_context(self._writer(partition))
                partition.writer.append(record_line(message))
                partition.position = offset + 1
            if partition.finished or partition.taken >= shares[partition.number]:
                del reading[partition.number]
                self.consumer.incremental_unassign([self._at(partition.number)])
        if not heard_of_any:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"nothing was sent within {self.source.wait_s:g} s"))

    def _writer(self, partition: _Partition) -> LandingWriter:
        name = f"{self._prefix}{partition.number:05}-{partition.start:020}.jsonl"
        # A clock that is behind must not put a file before the one that it follows.
        day = max(self.day, partition.newest.day) if partition.newest else self.day
        return self.zone.writer(day, self.source.name, name)

    def _commit_later(self, number: int, end: int, newest: LandedFile) -> None:
        self.commits[number] = self._at(number, end, _mark(newest))

    def _commit(self) -> None:
        if self.commits:
            _checked(self.consumer.commit(offsets=list(self.commits.values()), asynchronous=False))

    def _refuse_a_new_topic(self, number: int, start: int, high: int) -> None:
        if start > high:
            raise ConfigurationError(
                f"source {self.source.name}: partition {number} of topic {self.source.topic} ends at offset {high}, "
                f"but was read up to {start}: if the topic was created anew, give the source another `group`, which "
                "begins at its beginning"
            )

    def _warn(self, number: int, text: str) -> None:
        warning = f"source {self.source.name}: topic {self.source.topic}, partition {number}: {text}"
        _LOG.warning(warning)
        self.warnings.append(warning)

    def _at(self, number: int, offset: int | None = None, metadata: str = "") -> "TopicPartition":
        from confluent_kafka import OFFSET_INVALID, TopicPartition

        return TopicPartition(self.source.topic, number, OFFSET_INVALID if offset is None else offset, metadata)

    @property
    def _prefix(self) -> str:
        return f"{self.source.group}@{self.source.topic}-"


def _mark(file: LandedFile) -> str:
    """What a commit notes of the newest file."""
    return f"{file.uri} {file.size_bytes}"


def _day_of_mark(mark: str | None) -> date | None:
    try:
        return date.fromisoformat((mark or "").split("/")[0])
    except ValueError:
        return None


def _uri(file: LandedFile | None) -> str | None:
    return file.uri if file else None


def _shares(backlogs: Mapping[int, int], total: int) -> dict[int, int]:
    """How many of `total` messages each partition may give: equal parts; what the small ones leave goes to the big."""
    shares: dict[int, int] = {}
    for left, number in zip(range(len(backlogs), 0, -1), sorted(backlogs, key=backlogs.__getitem__), strict=True):
        shares[number] = min(backlogs[number], (total - sum(shares.values())) // left)
    return shares


def _checked(answers: "list[TopicPartition]") -> "list[TopicPartition]":
    """The answers, of which each may be an error of its own."""
    from confluent_kafka import KafkaException

    for at in answers:
        if at.error is not None:
            raise KafkaException(at.error)
    return answers

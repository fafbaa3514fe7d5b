"""Which pace, over how many instances, an encoder is fastest at on the machine at hand: measured, on its own servers.

What a pace is and which trial is chosen belongs to `resources.encoder_pace`, encoding to `resources.text_encoder`.
Where a choice is kept is not known here.
"""

import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from resources.embedded_triton import EmbeddedTriton
from resources.encoder_pace import Pace, Trial, paces
from resources.errors import ConfigurationError
from resources.model_config import parse_config
from resources.model_repository import CONFIG_NAME, ModelRepository
from resources.text_encoder import TextEncoder
from resources.triton import TritonResource
from resources.whole_file import write_whole

_ROUNDS = 3
_LEAST_TEXTS = 100
_WORDS = (
    "the a my card account payment order money bank app was is not has been charged why when how can i get refund "
    "delivery late broken again still waiting please help support nobody answers thank you great price service "
    "quality never arrived wrong code exchange rate fee abroad declined pending since yesterday update"
)


def sweep(
    encoders: Mapping[int, Callable[[Pace, Sequence[str]], None]],
    budgets: Sequence[int],
    texts: Sequence[str],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Trial]:
    """Tries every pace with every number of instances, three rounds of all of them.

    Args:
        encoders: What encodes texts at a pace, by its number of instances; 0 tries the paces of 2.
        budgets: The token budgets to try.
        texts: Those to encode; as many of them are used as fit into the time.
        seconds: About how long it may take.
        clock: Gives seconds.
    """
    tried = [(instances, pace) for instances in encoders for pace in paces(instances or 2, budgets)]
    first = texts[:_LEAST_TEXTS]
    for instances, encode in encoders.items():
        encode(Pace(budgets[0], instances or 2), first)
    start = clock()
    slowest = next(iter(encoders))
    encoders[slowest](Pace(budgets[0], slowest or 2), first)
    affordable = int(len(first) / (clock() - start) * seconds / (len(tried) * _ROUNDS))
    sample = texts[: max(affordable, _LEAST_TEXTS)]
    rates: dict[tuple[int, Pace], list[float]] = {one: [] for one in tried}
    for number in range(_ROUNDS):
        # The order turns, so that a drifting machine favours none.
        for instances, pace in tried[:: -1 if number % 2 else 1]:
            start = clock()
            encoders[instances](pace, sample)
            rates[instances, pace].append(len(sample) / (clock() - start))
    return [Trial(instances, pace, tuple(found)) for (instances, pace), found in rates.items()]


def encoder_at(
    triton: TritonResource, tokenizer: str, embedder: str, ensemble: str
) -> Callable[[Pace, Sequence[str]], None]:
    """Encodes texts by a server at whatever pace is asked for."""

    def encode(pace: Pace, texts: Sequence[str]) -> None:
        paced = TritonResource(**{**triton.model_dump(), "in_flight": pace.in_flight})
        TextEncoder(
            paced, tokenizer=tokenizer, embedder=embedder, ensemble=ensemble, token_budget=pace.token_budget
        ).encode(texts)

    return encode


@contextmanager
def scratch_servers(
    triton: TritonResource, models: Sequence[str], embedder: str, counts: Sequence[int]
) -> Iterator[dict[int, TritonResource]]:
    """Servers of our own with so many instances of the embedder, each over a copy of the repository.

    A server that runs for the project is left alone.

    Args:
        triton: The project's models and environment; its URL is not used.
        models: Those to serve, the embedder among them.
        embedder: The one whose instances differ.
        counts: The numbers of instances.

    Raises:
        ConfigurationError: A model is missing, or the embedder's configuration names no number of instances.
        ServerUnavailableError: A server did not start.
    """
    source = ModelRepository(Path(triton.repository))
    if missing := [model for model in models if model not in source.models()]:
        raise ConfigurationError(f"{source.path} lacks {', '.join(missing)}: restore it from the sources")
    with tempfile.TemporaryDirectory(prefix="triton-tuning-") as folder, ExitStack() as running:
        found: dict[int, TritonResource] = {}
        for count in counts:
            place = Path(folder) / str(count)
            for model in models:
                shutil.copytree(source.path / model, place / "models" / model, copy_function=_link)
            config = place / "models" / embedder / CONFIG_NAME
            text = with_instances(config.read_text(encoding="utf-8"), count, config)
            config.unlink()
            config.write_text(text, encoding="utf-8")
            server = running.enter_context(
                EmbeddedTriton(
                    repository=place / "models", environment=Path(triton.environment), state=place, idle_stop_s=0
                )
            )
            found[count] = TritonResource(
                **{**triton.model_dump(), "url": server.url, "repository": str(place / "models"), "state": str(place)}
            )
        yield found


def instances_in(path: Path) -> int:
    """How many instances a config.pbtxt names, in its one group for a CPU."""
    return int(_instances(path.read_text(encoding="utf-8"), path)[2])


def with_instances(text: str, count: int, path: Path) -> str:
    """The text of a config.pbtxt with another number of instances; comments and layout stay.

    Raises:
        ConfigurationError: It has no instance group of the form `[ { count: 2, kind: KIND_CPU } ]`, or several.
    """
    found = _instances(text, path)
    return f"{text[: found.start(2)]}{count}{text[found.end(2) :]}"


def set_instances(path: Path, count: int) -> bool:
    """Rewrites the number in a config.pbtxt, whole or not at all; gives whether it was another one.

    Raises:
        ConfigurationError: As `with_instances` raises it, or the file cannot be written.
    """
    before = path.read_text(encoding="utf-8")
    after = with_instances(before, count, path)
    if after == before:
        return False
    parse_config(after, path)
    write_whole(path, after)
    return True


def sample_texts(count: int) -> list[str]:
    """Sentences of common words, mostly short, a tenth of them long; the same ones each time."""
    chance, words = random.Random(count), _WORDS.split()  # noqa: S311  # no secret
    return [
        f"{' '.join(chance.choices(words, k=chance.randint(80, 200) if number % 10 == 0 else chance.randint(4, 24)))}"
        f" {number}"
        for number in range(count)
    ]


def _instances(text: str, path: Path) -> re.Match[str]:
    # Comments are blanked out, not removed, so that places stay.
    plain = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), text)
    groups = re.findall(r"\binstance_group\b", plain)
    found = re.search(
        r"(\binstance_group\s*:?\s*\[\s*\{\s*count:\s*)(\d+)(\s*,?\s*kind:\s*KIND_CPU\s*,?\s*\}\s*\])", plain
    )
    if found is None or len(groups) != 1:
        raise ConfigurationError(f"{path}: write its instances as `instance_group [ {{ count: 2, kind: KIND_CPU }} ]`")
    return found


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target

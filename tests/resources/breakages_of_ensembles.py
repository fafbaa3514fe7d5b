"""Breakages of the ensemble, and of what it chains."""

from pathlib import Path

from resources.model_repository import ModelCard, ModelRepository
from tests.resources.breakages import (
    WHOLE_CONFIG,
    Case,
    both,
    edit,
    second_version,
)
from tests.resources.small_repository import CODE, IDS, MOMENT, WHOLE

IDS_STEP = """\
  {
    model_name: "ids" model_version: -1
    input_map { key: "text", value: "text" }
    output_map { key: "ids", value: "tokens" }
  },
"""
ROUND_STEPS = """\
  {
    model_name: "round" model_version: -1
    input_map { key: "ids", value: "there" }
    output_map { key: "ids", value: "back" }
  },
  {
    model_name: "round" model_version: -1
    input_map { key: "ids", value: "back" }
    output_map { key: "ids", value: "there" }
  },
"""


# A model of which two can wait for each other takes what it gives.
TAKEN = '"text", data_type: TYPE_STRING, dims: [ 1 ]'
GIVEN = '"ids", data_type: TYPE_INT32, dims: [ -1 ]'


def with_round(root: Path) -> None:
    """Adds such a model."""
    (root / "round").mkdir()
    config = IDS.replace('"ids"\nb', '"round"\nb').replace(TAKEN, GIVEN)
    (root / "round" / "config.pbtxt").write_text(config)
    card = ModelCard(source="a test", created_at=MOMENT)
    ModelRepository(root).add_version("round", {"model.py": CODE.encode()}, card)


CASES = [
    Case(
        "steps_without_an_ensemble",
        edit(WHOLE_CONFIG, 'platform: "ensemble"\n', ""),
        'whole/config.pbtxt has ensemble steps and is no ensemble: write `platform: "ensemble"`, or remove them',
        refused="whole",
    ),
    Case(
        "ensemble_without_steps",
        lambda root: (root / WHOLE_CONFIG).write_text(WHOLE[: WHOLE.index("ensemble_scheduling")]),
        "whole/config.pbtxt is an ensemble without steps: write its ensemble_scheduling",
        refused="whole",
    ),
    Case(
        "absent_part",
        edit(WHOLE_CONFIG, 'model_name: "ids"', 'model_name: "tokens"'),
        "whole/config.pbtxt chains ['tokens'], which the repository does not have: add the model, or chain another",
        refused="whole",
    ),
    Case(
        "ensemble_of_itself",
        edit(WHOLE_CONFIG, 'model_name: "ids"', 'model_name: "whole"'),
        "whole/config.pbtxt chains itself, by way of its steps: remove that step",
        refused="whole",
    ),
    Case(
        "unknown_input_of_a_part",
        edit(WHOLE_CONFIG, 'input_map { key: "ids"', 'input_map { key: "id"'),
        "whole/config.pbtxt maps input 'id' of embed, which has ['ids']: correct the input_map",
        refused="whole",
    ),
    Case(
        "unknown_output_of_a_part",
        edit(WHOLE_CONFIG, 'output_map { key: "vector"', 'output_map { key: "vectors"'),
        "whole/config.pbtxt maps output 'vectors' of embed, which has ['vector']: correct the output_map",
        refused="whole",
    ),
    Case(
        "input_of_a_part_left_out",
        edit(WHOLE_CONFIG, '    input_map { key: "ids", value: "tokens" }\n', ""),
        "whole/config.pbtxt gives embed no ['ids']: add it to the input_map",
        refused="whole",
    ),
    Case(
        "tensor_that_nothing_gives",
        edit(WHOLE_CONFIG, 'input_map { key: "ids", value: "tokens"', 'input_map { key: "ids", value: "ids"'),
        "whole/config.pbtxt: embed takes 'ids', which nothing gives: correct the maps of the steps",
        refused="whole",
    ),
    Case(
        "answer_that_nothing_gives",
        edit(WHOLE_CONFIG, 'key: "vector", value: "vector"', 'key: "vector", value: "vectors"'),
        "whole/config.pbtxt: the answer takes 'vector', which nothing gives: correct the maps of the steps",
        refused="whole",
    ),
    Case(
        "tensor_that_nothing_takes",
        edit(WHOLE_CONFIG, "dims: [ 1 ] } ]", 'dims: [ 1 ] }, { name: "unread", data_type: TYPE_BOOL, dims: [ 1 ] } ]'),
        "whole/config.pbtxt: nothing takes ['unread']: remove it, or map it to an input",
        refused="whole",
    ),
    Case(
        "tensor_given_twice",
        edit(WHOLE_CONFIG, "step [\n", f"step [\n{IDS_STEP}"),
        "whole/config.pbtxt: ids and ids both give 'tokens': rename one of them",
        refused="whole",
    ),
    Case(
        "tensor_of_another_type",
        edit(WHOLE_CONFIG, "TYPE_FP32", "TYPE_FP16"),
        "embed gives 'vector' as FP32 [-1, 4], the answer takes it as FP16 [-1, 4]: make them equal",
        refused="whole",
    ),
    Case(
        "tensor_of_another_shape",
        edit(WHOLE_CONFIG, "dims: [ 4 ]", "dims: [ 5 ]"),
        "embed gives 'vector' as FP32 [-1, 4], the answer takes it as FP32 [-1, 5]: make them equal",
        refused="whole",
    ),
    Case(
        "larger_batch_than_a_part_s",
        edit(WHOLE_CONFIG, "max_batch_size: 8", "max_batch_size: 16"),
        "whole/config.pbtxt takes 16 rows, ['ids', 'embed'] at most 8: lower max_batch_size",
        refused="whole",
    ),
    Case(
        "absent_version_of_a_part",
        edit(WHOLE_CONFIG, '"embed" model_version: -1', '"embed" model_version: 2'),
        "whole/config.pbtxt asks for embed version 2, and it has [1]: build it, or name another",
        refused="whole",
    ),
    Case(
        "unloaded_version_of_a_part",
        both(second_version(name="two"), edit(WHOLE_CONFIG, '"embed" model_version: -1', '"embed" model_version: 1')),
        "whole/config.pbtxt asks for embed version 1, which embed/config.pbtxt does not serve: add it to the version_",
        refused="whole",
    ),
    Case(
        "steps_that_wait_for_each_other",
        both(with_round, edit(WHOLE_CONFIG, "step [\n", f"step [\n{ROUND_STEPS}")),
        "whole/config.pbtxt: the steps round wait for each other's tensors: correct their input_map",
        refused="whole",
    ),
]

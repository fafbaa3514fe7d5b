"""The tokenizer served by Triton's Python backend: text to token ids, an attention mask and a token count.

Building a version copies this file beside the encoder's own tokenizer.json and model.json. It runs in the
server's Python environment, which has numpy and tokenizers; nothing of the platform can be imported here.
"""

import json
from itertools import chain
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer


class TritonPythonModel:
    """Tokenizes each request as one batch, padded to its longest text."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the tokenizer and the token limit of the version being loaded."""
        version = Path(args["model_repository"]) / args["model_version"]
        parameters = json.loads(args["model_config"]).get("parameters", {})
        self._multiple = int(parameters.get("pad_to_multiple_of", {}).get("string_value", "1"))
        self._limit = int(json.loads((version / "model.json").read_text())["token_limit"])

        self._tokenizer = Tokenizer.from_file(str(version / "tokenizer.json"))
        self._pad_id = _pad_id(self._tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._limit)
        self._special_tokens = self._tokenizer.num_special_tokens_to_add(is_pair=False)

    def execute(self, requests: list) -> list:
        """Answers each request; text that is not UTF-8 is an error of its request alone."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: object) -> object:
        raw = pb_utils.get_input_tensor_by_name(request, "text").as_numpy()
        try:
            texts = [value.decode("utf-8") for value in raw.reshape(-1)]
        except UnicodeDecodeError as error:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"text is not UTF-8: {error}"))

        encodings = self._tokenizer.encode_batch_fast(texts)
        ids = [encoding.ids for encoding in encodings]
        lengths = np.fromiter(map(len, ids), np.int32, len(ids))
        # A tokenizer without special tokens gives nothing for an empty text; a tensor needs one column.
        longest = max(1, int(lengths.max()))
        columns = -(-longest // self._multiple) * self._multiple
        # Rounding up must not pass the encoder's last position.
        columns = max(longest, min(columns, self._limit))

        is_token = np.arange(columns) < lengths[:, np.newaxis]
        input_ids = np.full(is_token.shape, self._pad_id, dtype=np.int32)
        input_ids[is_token] = np.fromiter(chain.from_iterable(ids), np.int32, int(lengths.sum()))
        cut = np.zeros(len(ids), dtype=np.int32)
        for row in np.flatnonzero(lengths == self._limit):
            cut[row] = sum(len(piece.ids) - self._special_tokens for piece in encodings[row].overflowing)
        attention_mask = is_token.astype(np.int32)
        token_count = (lengths + cut)[:, np.newaxis]
        truncated = (cut > 0)[:, np.newaxis]

        return pb_utils.InferenceResponse(
            output_tensors=[
                pb_utils.Tensor("input_ids", input_ids),
                pb_utils.Tensor("attention_mask", attention_mask),
                pb_utils.Tensor("token_count", token_count),
                pb_utils.Tensor("truncated", truncated),
            ]
        )


def _pad_id(tokenizer: Tokenizer) -> int:
    """The id the encoder was trained to see as padding; some derive positions from it."""
    if tokenizer.padding is not None:
        return int(tokenizer.padding["pad_id"])
    for token in ("[PAD]", "<pad>"):
        found = tokenizer.token_to_id(token)
        if found is not None:
            return int(found)
    return 0

"""Whether a SentencePiece model fits an embedding."""

from __future__ import annotations

from typing import Any

from anyorder.core import CheckpointError


def require_tokenizer(model: bytes, *, vocab_size: int, source: str) -> list[str]:
    """Raise ``CheckpointError`` where the model is none, or has more pieces than the embedding has rows.

    Returns:
        notes: one where it has fewer.
    """
    from sentencepiece import SentencePieceProcessor

    try:
        processor: Any = SentencePieceProcessor(model_proto=model)
    except Exception:
        raise CheckpointError(f"{source}: the tokenizer is not a SentencePiece model") from None
    pieces = processor.get_piece_size()
    if pieces > vocab_size:
        raise CheckpointError(
            f"{source}: the tokenizer has {pieces} pieces and the embedding {vocab_size} rows; they are of two models"
        )
    if pieces < vocab_size:
        return [
            f"the tokenizer has {pieces} pieces and the embedding {vocab_size} rows: the others belong to tokens that "
            "were added later, which the tokenizer here never makes"
        ]
    return []

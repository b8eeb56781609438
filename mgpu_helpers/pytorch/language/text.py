"""Text as tokens, one per character, and this course's sentences as training data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

PAD, EDGE, SYMBOLS = 0, 1, 97  # padding; a sentence's ends; number of tokens, with printable ASCII


def encode(sentence: str) -> list[int]:
    """Return a sentence's tokens between two EDGEs; characters outside ASCII are dropped."""
    return [EDGE, *(ord(c) - 30 for c in sentence if ' ' <= c <= '~'), EDGE]


def decode(tokens: Sequence[int]) -> str:
    """Return the sentence that these tokens encode, without EDGEs and padding."""
    return ''.join(chr(int(t) + 30) for t in tokens if t > EDGE)


def shifted(
    sequences: Sequence[Sequence[int]], device: torch.device | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens (n, t) and the token that follows each (n, t), padded with PAD."""
    rows = [torch.tensor(s, device=device) for s in sequences]
    x, y = (pad_sequence([r[s] for r in rows], True, PAD) for s in (slice(-1), slice(1, None)))
    return x, y


def course_sentences() -> list[str]:
    """Return 1,601 sentences of this course in ASCII, of 20 to 94 characters, from a file."""
    above = [Path(__file__).parents[3], Path.cwd(), *Path.cwd().parents]
    names = 'training/sentences.txt', 'course/training/sentences.txt'  # on Colab: book/elsewhere.md
    for path in (folder / name for folder in above for name in names):
        if path.exists():
            return path.read_text('utf8').splitlines()
    raise FileNotFoundError(f'{names[0]} was not found: run this inside the course folder')

"""Text as tokens, one per character, and this course's sentences as training data."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

PAD, EDGE, SYMBOLS = 0, 1, 97  # padding; a sentence's ends; number of tokens, with printable ASCII
REPLACED = str.maketrans({'’': "'", '–': '-', '−': '-', '×': 'x', '…': '...', '·': '*'})
# Headings, tables, figures and HTML; hidden answers and formulas; link addresses; emphasis.
MARKUP = (
    r'(?m)^(#|\||!\[|\s*<).*$',
    r'(?s)<details>.*?</details>|\$\$.*?\$\$',
    r'\]\([^)]*\)',
    r'[][*`]',
)


def encode(sentence: str) -> list[int]:
    """Return a sentence's tokens between two EDGEs; characters outside ASCII are dropped."""
    return [EDGE, *(ord(c) - 30 for c in sentence if ' ' <= c <= '~'), EDGE]


def decode(tokens: Sequence[int]) -> str:
    """Return the sentence that these tokens encode, without its ends and padding."""
    return ''.join(chr(int(t) + 30) for t in tokens if t > EDGE)


def shifted(sequences: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch of tokens (n, t) and of the next token for each (n, t), padded with PAD."""
    rows = [torch.tensor(s) for s in sequences]
    x, y = (pad_sequence([r[s] for r in rows], True, PAD) for s in (slice(-1), slice(1, None)))
    return x, y


def course_sentences(folder: str | Path | None = None) -> list[str]:
    """Return the course's sentences of 20 to 94 characters; they change when the course does."""
    above = [Path(__file__).parents[3], Path.cwd(), *Path.cwd().parents]
    inside = 'notebooks', 'course/notebooks', '.'  # the second on Colab, see book/elsewhere.md
    places = [Path(folder)] if folder else [p / name for p in above for name in inside]
    paths = next((found for p in places if (found := sorted(p.glob('0[1-9]-*.ipynb')))), None)
    if not paths:
        raise FileNotFoundError(
            f'no chapters in {places[0]}: run this in a folder of the course, or pass its path'
        )
    cells = (cell for path in paths for cell in json.loads(path.read_text('utf8'))['cells'])
    text = '\n\n'.join(''.join(c['source']) for c in cells if c['cell_type'] == 'markdown')
    for pattern in MARKUP:
        text = re.sub(pattern, '', text)
    found = (' '.join(s.split()) for s in re.split(r'(?<=[.?!:])\s+|\n\n', text))
    plain = (decode(encode(s.translate(REPLACED))) for s in found)
    return [s for s in plain if 20 <= len(s) <= 94]

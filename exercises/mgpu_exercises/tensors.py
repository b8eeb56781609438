"""Convert students' values to tensors, and compare them."""

from typing import Any

import torch


def tensor(found: Any) -> torch.Tensor:
    """Convert a student's value to a tensor; lists of numbers or of tensors are accepted, too."""
    if isinstance(found, list | tuple):
        return torch.stack([tensor(part) for part in found]) if found else torch.zeros(0)
    return torch.as_tensor(found)


def near(found: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether two tensors have the same shape and, up to rounding, the same values."""
    if found.shape != right.shape:
        return False
    return torch.allclose(found.detach().double(), right.detach().double(), rtol=1e-6, atol=1e-8)

"""What a bad value is told: its name, what it is, what was expected, whatever it is."""

import pytest

from mgpu_helpers import checks

HUGE = 10**400  # no float can hold it


def test_numbers_are_refused_in_a_sentence():
    for check, value, words in (
        (checks.positive_number, HUGE, 'lr must be a number above 0, not an int of 400 digits'),
        (checks.positive_number, -HUGE, 'lr must be a number above 0, not an int of 400 digits'),
        (checks.positive_number, 10**5000, 'not an int of 5,000 digits'),  # str() of it raises
        (checks.positive_number, float('nan'), 'not nan'),
        (checks.positive_number, float('inf'), 'not inf'),
        (checks.not_negative, HUGE, 'at least 0, not an int of 400 digits'),
        (checks.finite_number, -HUGE, 'lr must be a finite number, not an int of 400 digits'),
        (checks.positive_int, -HUGE, 'lr must be at least 1, not an int of 400 digits'),
    ):
        with pytest.raises(ValueError, match=words):
            check('lr', value)

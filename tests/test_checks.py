"""What a bad value is told: its name, what it is, what was expected, whatever it is."""

import pytest

from mgpu_helpers import checks


@pytest.mark.parametrize(
    ('check', 'value', 'words'),
    [
        (checks.positive_number, 10**400, 'lr must be a number above 0, not an int of 400 digits'),
        (
            checks.positive_number,
            -(10**400),
            'lr must be a number above 0, not an int of 400 digits',
        ),
        (checks.positive_number, float('nan'), 'not nan'),
        (checks.positive_number, float('inf'), 'not inf'),
        (checks.not_negative, 10**400, 'at least 0, not an int of 400 digits'),
        (checks.finite_number, -(10**400), 'lr must be a finite number, not an int of 400 digits'),
        (checks.positive_int, -(10**400), 'lr must be at least 1, not an int of 400 digits'),
    ],
)
def test_numbers_that_no_float_can_hold_are_refused_in_a_sentence(check, value, words):
    with pytest.raises(ValueError, match=words):
        check('lr', value)


def test_a_number_too_long_to_write_out_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match='not an int of 5,000 digits'):
        checks.positive_number('lr', 10**5000)  # str() of it is an error of its own

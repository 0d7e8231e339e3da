"""Rows in parts of a few sizes: the same values whatever their number, and few compilations."""

import numpy as np
import pytest

from fisherscore._support.rows import rows_in_turn


@pytest.mark.parametrize("num", [1, 8, 9, 64, 65, 513, 8_193, 20_000])
@pytest.mark.parametrize("batch_size", [5, 64, 65_536])
def test_rows_are_all_there_in_order_and_parts_have_few_sizes(num, batch_size):
    sizes = set()

    def double(rows):
        sizes.add(len(rows))
        return 2 * rows

    rows = np.arange(3 * num, dtype=np.float64).reshape(num, 3)
    assert np.array_equal(rows_in_turn(double, (rows,), batch_size), 2 * rows)
    assert len(sizes) == 1 and sizes <= {5, 8, 64, 512, 8_192} and max(sizes) <= batch_size


def test_no_rows_are_no_rows():
    assert rows_in_turn(lambda rows: rows, (np.zeros((0, 3)),), 8).shape == (0, 3)

"""Few, some and many simulations: how rows are split, closed forms weighed and errors estimated."""

from dataclasses import replace

import equinox as eqx
import numpy as np
import pytest

from fisherscore.fitting.cross_validation import CrossValidation, cross_validate
from fisherscore.fitting.data import Rows
from fisherscore.fitting.implicit_risk import ImplicitRisk, Terms, edge_weights
from fisherscore.fitting.regimes import Few, Many, Some, WeighedForms, regime_of
from fisherscore.potentials.gaussian import Gaussian

SIGMA = 0.3
METRIC = np.array([[SIGMA**2]])


class Line(eqx.Module):
    """The score of x ~ N(u, σ²) times a factor."""

    factor: float

    def __call__(self, u, x):
        return self.factor * (x - u) / SIGMA**2


def drawn(num, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (num, 1))
    return Rows(u, u + SIGMA * rng.normal(size=u.shape))


def validated(regime, functions, num=4_000):
    """Say what fixed functions give in place of fits, whatever part is left out."""
    rows = drawn(num)
    parts = regime.split(num, np.random.default_rng(1))
    held_out, points = rows.take(np.concatenate(parts)), rows.take(slice(500))
    return CrossValidation(
        parts=parts,
        points=points,
        fits={n: [f] * len(parts) for n, f in functions.items()},
        scores={n: np.stack([points.scores(f)] * len(parts)) for n, f in functions.items()},
        terms={n: Terms.of(f, held_out, METRIC) for n, f in functions.items()},
        risk=ImplicitRisk(edge_weights(held_out.u), METRIC),
    )


def test_the_number_of_simulations_chooses():
    kinds = [type(regime_of(num)) for num in (12, 5_000, 5_001, 30_000, 30_001)]
    assert kinds == [Few, Few, Some, Some, Many]


@pytest.mark.parametrize(("regime", "sizes"), [(Few(), [200] * 5), (Some(), [334, 333, 333]), (Many(), [200])])
def test_parts_do_not_overlap(regime, sizes):
    parts = regime.split(1_000, np.random.default_rng(0))
    assert [len(p) for p in parts] == sizes
    assert len(np.unique(np.concatenate(parts))) == sum(sizes)


def test_each_has_its_rule_of_weights():
    functions = {"right": Line(0.97), "broken": Line(np.nan)}
    weights = {type(r): r.weights(validated(r, functions)) for r in (Few(), Some(), Many())}
    for chosen in weights.values():
        assert set(chosen) == {"right"} and chosen["right"] == pytest.approx(1.0, abs=0.1)
    assert weights[Many]["right"] == 1.0 != weights[Some]["right"]
    assert Few().weights(validated(Few(), {"broken": Line(np.nan)})) == {}


def test_members_that_do_not_help_are_dropped_unless_there_are_few():
    # Both fit to noise about the truth: the average of the two is better than each.
    functions = {"large": Line(1.1), "small": Line(0.9)}
    few, some = (r.weights(validated(r, functions, 20_000)) for r in (Few(), Some()))
    assert sum(w > 0 for w in some.values()) == 1
    assert 1.1 * few["large"] + 0.9 * few["small"] == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("regime", [Few(), Some(), Many()])
def test_errors_shrink_with_simulations_and_are_one_without_members(regime):
    errors = []
    for num in (100, 10_000):
        rows, rng = drawn(num), np.random.default_rng(0)
        validation = cross_validate(rows, {"gaussian": Gaussian}, regime.split(num, rng))
        forms = WeighedForms(
            {"gaussian": Gaussian.fit(rows.u, rows.x)}, {"gaussian": 1.0}, validation, {"gaussian": Gaussian}
        )
        errors.append(regime.error(forms, rows, rng).total)
    assert errors[1] < 0.3 * errors[0] and errors[0] < 0.3
    assert regime.error(replace(forms, members={}), rows, rng).total == 1.0

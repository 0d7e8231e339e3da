"""Three outcomes and never a mix-up: right, not constrained by the data, badly learned; in every place that answers.

What a user can do wrong or meet: far too few simulations, data that say nothing, rows or columns that do not belong
together, an observation far outside, a range far too wide. Each place must give the outcome that fits, and no advice
that makes things worse.
"""

import re
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import fisherscore as fs

pytestmark = pytest.mark.slow

FIRST, SECOND = np.array([1.0, 0.6, -0.4, 0.3, 0.8]), np.array([0.2, -0.7, 0.9, 0.5, -0.1])
REGION, WIDE = fs.uniform(a=(-1.0, 1.0), b=(-1.0, 1.0)), fs.uniform(a=(-3.0, 3.0), b=(-3.0, 3.0))
AT = np.array([0.3, -0.4])
RIGHT, FREE, BADLY = "right", "not constrained by the data", "badly learned"
STRANGE = "unlike anything simulated"
# What must never be advised where the score was badly learned or the data say nothing.
WIDER = re.compile(r"widen|larger region")
MORE = re.compile(r"some [\d,]+ simulations|more simulations(?! would not)")


def signal(theta, rng):
    return np.tanh(theta[0]) * FIRST + np.tanh(theta[1]) * SECOND + 0.15 * rng.normal(size=5)


def added(theta, rng):
    """Data of the sum alone: the difference is free."""
    return theta.sum() * FIRST + 0.15 * rng.normal(size=5)


def noise(theta, rng):
    return rng.normal(size=5)


def decades(theta, rng):
    """Data that are sharp at one end of the range and all noise at the other."""
    a, b = 10.0**theta
    return np.array([a, b, a + b, a - b]) + 0.1 * rng.normal(size=4)


SIGNAL, ADDED, NOISE, DECADES = map(fs.from_python, (signal, added, noise, decades))
CLOSED = fs.AutoRecipe(density=None)


def quietly(function):
    """Call a function and return its result and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", fs.FisherScoreWarning)
        result = function()
    return result, " / ".join(str(w.message) for w in caught)


@dataclass(frozen=True)
class Answers:
    """A model, and all that is printed of it and with it."""

    model: object
    warned: str
    constraints: object
    best: object
    posterior: object
    forecast: object
    checks: object

    @classmethod
    def of(cls, sims, simulator, shift=0.0):
        model, warned = quietly(lambda: fs.fit(sims, recipe=CLOSED))
        x = simulator.draw(AT, seed=6) + shift
        fresh = fs.simulate(simulator, sims.proposal, 1_000, seed=9)
        return cls(
            model=model,
            warned=warned,
            constraints=fs.constraints(model),
            best=fs.maximum_likelihood(model, x),
            posterior=quietly(lambda: fs.sample(model, x, num_samples=400, num_warmup=300))[0],
            forecast=quietly(lambda: fs.forecast(model, AT, simulator, num_simulations=2_000))[0],
            checks=fs.diagnose(model, fresh, x_obs=x, num_posteriors=0),
        )

    @property
    def printed(self):
        """What is printed, by place."""
        return {
            "fit": self.warned,
            "model": str(self.model),
            "constraints": str(self.constraints),
            "best": str(self.best),
            "posterior": str(self.posterior),
            "forecast": str(self.forecast),
            "checks": str(self.checks),
        }


GOOD = fs.simulate(SIGNAL, REGION, 800)
CASES = {
    "good": lambda: Answers.of(GOOD, SIGNAL),
    "few": lambda: Answers.of(fs.simulate(SIGNAL, REGION, 50), SIGNAL),
    "sum": lambda: Answers.of(fs.simulate(ADDED, REGION, 800), ADDED),
    "rows": lambda: Answers.of(fs.from_table(np.roll(GOOD.theta, 1, axis=0), GOOD.x, REGION), SIGNAL),
    "columns": lambda: Answers.of(fs.from_table(GOOD.theta[:, ::-1], GOOD.x, REGION), SIGNAL),
    "far": lambda: Answers.of(GOOD, SIGNAL, shift=3.0),
    "wide": lambda: Answers.of(fs.simulate(DECADES, WIDE, 800), DECADES),
}
KNOWN = {}


@pytest.fixture
def answers(request):
    """The answers of a case, made once."""
    if request.param not in KNOWN:
        KNOWN[request.param] = CASES[request.param]()
    return KNOWN[request.param]


def of(case):
    return pytest.mark.parametrize("answers", [case], indirect=True)


@of("good")
def test_a_good_fit_is_right_everywhere(answers):
    """The control: nothing that is said elsewhere is said of it."""
    printed = answers.printed
    assert answers.constraints.outcome == RIGHT and RIGHT in printed["model"] and not answers.warned
    assert answers.best.message == "converged" and answers.posterior.trusted and not answers.posterior.notes
    assert not answers.forecast.notes and answers.checks.passed
    assert not any(word in text for text in printed.values() for word in (FREE, BADLY, STRANGE, "do not trust"))


@of("few")
def test_few_simulations_are_badly_learned_everywhere(answers):
    for place, text in answers.printed.items():
        assert BADLY in text and FREE not in text and not WIDER.search(text), place
    for place in ("fit", "constraints", "best", "posterior", "forecast", "checks"):
        assert MORE.search(answers.printed[place]), place
    assert not answers.posterior.trusted and not answers.checks.passed


@of("sum")
def test_a_combination_the_data_leave_free_is_named_everywhere(answers):
    (free,) = answers.constraints.unconstrained
    assert abs(free.direction @ [1, -1]) / np.linalg.norm(free.direction) / np.sqrt(2) > 0.99
    for place, text in answers.printed.items():
        if place != "fit":  # which is right, and warns of nothing
            assert FREE in text and BADLY not in text and not WIDER.search(text), place
    assert not answers.warned and answers.posterior.trusted and answers.checks.passed
    assert not any(MORE.search(answers.printed[p]) for p in ("constraints", "best", "posterior", "forecast"))
    named = [answers.printed[p] for p in ("constraints", "best", "posterior", "forecast", "checks")]
    assert all(re.search(r"\+1 a -(1|0\.9\d) b|\+0\.9\d a -1 b", text) for text in named)


@of("rows")
def test_rows_that_do_not_belong_together_say_nothing_and_so_do_the_answers(answers):
    assert len(answers.constraints.unconstrained) == 2 and "belong together" in answers.printed["constraints"]
    for place, text in answers.printed.items():
        if place != "fit":
            assert FREE in text and BADLY not in text and not WIDER.search(text), place
    assert not answers.best.converged and np.isnan(answers.best.sigma).all() and "converged" not in answers.best.message
    assert "the posterior is the training range, in all parameters" in answers.posterior.notes[0]
    assert answers.posterior.trusted, answers.posterior.problems


def test_data_that_say_nothing_are_told_so():
    with pytest.raises(fs.TrainingError, match=f"^{FREE}.*No datum is seen to go with a parameter"):
        fs.fit(fs.simulate(NOISE, REGION, 800), recipe=CLOSED)


@of("columns")
def test_swapped_columns_are_seen_wherever_the_simulator_is_run(answers):
    """Fit, best fit and posterior cannot know: the table is a good one, of other parameters."""
    assert answers.constraints.outcome == RIGHT and answers.posterior.trusted
    assert not answers.checks.passed and answers.checks["zero mean"].verdict == "FAIL"
    text = str(answers.forecast)
    assert BADLY in text and FREE not in text and "same order" in text
    x = SIGNAL.draw(AT, seed=6)
    assert not fs.predictive_check(answers.posterior, SIGNAL, x).passed


def test_swapped_data_are_unlike_anything_simulated():
    model = fs.fit(GOOD, recipe=CLOSED)
    strange = 4 * SIGNAL.draw(AT, seed=6)[::-1]
    assert STRANGE in fs.maximum_likelihood(model, strange).message


@of("far")
def test_an_observation_far_outside_is_no_fault_of_the_fit(answers):
    printed = answers.printed
    for place in ("fit", "model", "constraints", "forecast"):
        assert BADLY not in printed[place] and FREE not in printed[place] and STRANGE not in printed[place], place
    for place in ("best", "posterior", "checks"):
        assert STRANGE in printed[place] and BADLY not in printed[place] and not MORE.search(printed[place]), place
    assert not answers.posterior.trusted and not answers.checks.passed
    # A larger region is no advice of its own: it helps only if the simulator is right.
    assert not WIDER.search(printed["best"]) and not WIDER.search(printed["posterior"])


@of("wide")
def test_a_range_far_too_wide_is_never_told_to_widen(answers):
    for place, text in answers.printed.items():
        assert BADLY in text and FREE not in text and not WIDER.search(text), place
    for place in ("fit", "constraints", "best", "posterior", "forecast", "checks"):
        assert "narrower range" in answers.printed[place], place
    assert not answers.best.converged and np.isnan(answers.best.sigma).all() and not answers.posterior.trusted

"""What long work shows in a log, a notebook and a terminal: with a clock of our own, and once the real one."""

import io
import sys
import time
import types

import numpy as np
import pytest

import fisherscore as fs
from fisherscore._support import progress
from fisherscore._support.progress import _Log, _Notebook, _Step, _Terminal, noted, progress_bar, working


def steps_of(*titles, total=None, note="compiling"):
    steps = [_Step(title, total, note) for title in titles]
    for step in steps:
        step.started = 0.0
    return steps


def test_a_log_has_no_gap_of_ten_seconds(capsys):
    """Two minutes in which nothing is heard of the work, as while a function is compiled."""
    log, steps, said = _Log(0.0, at_once=False), steps_of("fit"), [0.0]
    for now in np.arange(0.0, 120.0, progress._TICK):
        log.tick(steps, now)
        if capsys.readouterr().err:
            said.append(now)
    assert said[1] == 2.0 and np.diff([*said, 120.0]).max() < 10.0


def test_a_line_says_what_is_going_on_and_how_far_it_is(capsys):
    log, steps = _Log(0.0, at_once=False), steps_of("check", "sample", total=1_500)
    log.tick(steps, 1.0)
    assert capsys.readouterr().err == ""  # too short to be mentioned
    log.tick(steps, 3.0)
    assert capsys.readouterr().err == "sample, 0/1,500, compiling, 3 s\n"
    steps[1].advance(1_200, "warm-up")
    log.tick(steps[:], 12.0)
    assert capsys.readouterr().err == "sample, 1,200/1,500, warm-up, 12 s\n"
    log.tick(steps[:1], 21.0)
    assert capsys.readouterr().err == "check, 0/1,500, compiling, 21 s\n"


def test_a_thread_speaks_while_the_work_is_silent(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_FIRST_AFTER", 0.05)
    monkeypatch.setattr(progress, "_TICK", 0.02)
    with working("think"):
        noted("deeply")
        time.sleep(0.5)
    assert capsys.readouterr().err.startswith("think, deeply, 0 s\n")
    assert not progress._DISPLAY.steps and progress._DISPLAY.view is None


def test_nothing_is_shown_of_what_is_quick_or_must_be_quiet(capsys, monkeypatch):
    with working("quick"), progress_bar("also quick", 10) as advance:
        advance(10)
    monkeypatch.setattr(progress, "_FIRST_AFTER", 0.0)
    with working("quiet", show=False):
        noted("not heard")
        time.sleep(3 * progress._TICK)
    assert capsys.readouterr().err == ""


def test_an_error_ends_the_display():
    with pytest.raises(ZeroDivisionError), working("fail"):
        _ = 1 / 0
    assert not progress._DISPLAY.steps and progress._DISPLAY.view is None


def test_a_closed_stream_does_not_stop_the_work(monkeypatch):
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    _Log(0.0, at_once=True).close(steps_of("fit"), 1.0)


def test_a_notebook_has_one_line_that_changes(monkeypatch):
    shown = []

    class Handle:
        def update(self, text):
            shown.append(text)

    def display(text, display_id):
        shown.append(text)
        return Handle()

    fake = types.ModuleType("IPython.display")
    fake.Pretty, fake.display = str, display
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    view, steps = _Notebook(0.0), steps_of("fit")
    for now in (1.0, 2.5, 2.7, 4.0):
        view.tick(steps, now)
    view.close(steps, 5.0)
    assert shown == ["fit, compiling, 2 s", "fit, compiling, 4 s", "fit: done in 5 s"]


def test_a_kernel_is_known_as_a_notebook(monkeypatch):
    assert not progress._in_notebook()
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert progress._in_notebook()


def test_a_terminal_has_a_bar_for_each_step(capsys):
    view, steps = _Terminal(), steps_of("fit", "network", total=100)
    view.tick(steps, 1.0)
    steps[1].advance(100, "loss 1.2")
    view.tick(steps[:1], 9.0)
    view.close(steps[:1], 10.0)
    shown = capsys.readouterr().err
    assert "fit" in shown and "network" in shown and "100/100" in shown


PROBLEM = fs.problems.linear_gaussian()
POSTERIOR = fs.sample(PROBLEM.exact_model(), [0.5, -0.5], num_samples=100, num_warmup=100)
CALLS = {
    "fit": lambda: fs.fit(fs.simulate(PROBLEM.simulator, PROBLEM.proposal, 200), recipe=fs.ClosedFormRecipe()),
    "sample": lambda: fs.sample(PROBLEM.exact_model(), [0.5, -0.5], num_samples=50, num_warmup=50),
    "forecast": lambda: fs.forecast(PROBLEM.exact_model(), [0.0, 0.0], PROBLEM.simulator, num_simulations=500),
    "diagnose": lambda: fs.diagnose(
        PROBLEM.exact_model(), fs.simulate(PROBLEM.simulator, PROBLEM.proposal, 200, seed=3), num_posteriors=0
    ),
    "maximum likelihood": lambda: fs.maximum_likelihood(PROBLEM.exact_model(), [0.5, -0.5]),
    "predictive check": lambda: fs.predictive_check(POSTERIOR, PROBLEM.simulator, [0.5, -0.5], num_simulations=400),
    "profile likelihood": lambda: fs.profile_likelihood(PROBLEM.exact_model(), [0.5, -0.5], "theta1"),
}


@pytest.mark.filterwarnings("ignore::fisherscore.errors.FisherScoreWarning")  # short chains
@pytest.mark.parametrize("title", CALLS)
def test_every_long_call_shows_what_it_does(title, monkeypatch):
    begun = []
    begin = progress._Display.begin
    monkeypatch.setattr(
        progress._Display,
        "begin",
        lambda self, step, **options: (begun.append(step.title), begin(self, step, **options)),
    )
    CALLS[title]()
    assert title in begun

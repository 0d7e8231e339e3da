"""A campaign knows its simulator by what it does, loses nothing to trouble of the machine, and stops in time."""

import errno
import json
import shutil
import sqlite3
import sys

import numpy as np
import pytest

import fisherscore as fs
from fisherscore.simulation.execution import ledger as ledgers
from fisherscore.simulation.execution import recording
from fisherscore.simulation.execution.engine import Here
from fisherscore.simulation.execution.run import Outcome

BOX = fs.uniform(a=(0.0, 1.0), b=(2.0, 3.0))
NOISE = 1.27


def reads_global(theta, rng):
    return theta + NOISE * rng.normal(size=2)


class Settings:
    noise = 1.0


def reads_attribute(theta, rng):
    return theta + Settings.noise * rng.normal(size=2)


class Model:
    def __init__(self):
        self.noise = 1.0

    def run(self, theta, rng):
        return theta + self.noise * rng.normal(size=2)


def with_table(table):
    def reads_closure(theta, rng):
        return theta + table * rng.normal(size=2)

    return reads_closure


def compiled(noise):
    """Make a function that has no source."""
    scope = {}
    exec(f"def f(theta, rng): return theta + {noise} * rng.normal(size=2)", scope)
    return scope["f"]


def reading(path):
    """Make a function that reads a file."""

    def reads_file(theta, rng):
        return theta + float(path.read_text()) * rng.normal(size=2)

    return reads_file


PROGRAM = """
import json, sys
import numpy as np
given = json.load(open(sys.argv[1]))
noise = json.load(open(sys.argv[3].partition("=")[2])) if len(sys.argv) > 3 else 1.0
np.save(sys.argv[2], noise * np.random.default_rng(given["seed"]).normal(size=2))
"""


def two_simulators(kind, tmp_path, monkeypatch):
    """Give a simulator, and as the second what changes it without a trace in its source."""
    if kind == "global":
        return fs.from_python(reads_global), lambda: monkeypatch.setitem(globals(), "NOISE", 919.0)
    if kind == "class attribute":
        return fs.from_python(reads_attribute), lambda: monkeypatch.setattr(Settings, "noise", 919.0)
    if kind == "bound method":
        model = Model()
        return fs.from_python(model.run), lambda: setattr(model, "noise", 919.0)
    if kind == "array of a closure":
        table = np.ones(2)
        return fs.from_python(with_table(table)), lambda: table.fill(919.0)
    if kind == "no source":
        return fs.from_python(compiled(1.0)), None
    if kind == "file":
        path = tmp_path / "noise"
        path.write_text("1.0")
        return fs.from_python(reading(path)), lambda: path.write_text("919.0")
    program = tmp_path / "sim.py"
    program.write_text(PROGRAM)
    (tmp_path / "cfg").write_text("1.0")
    option = [f"--config={tmp_path}/cfg"] if kind == "file of an option" else []
    words = [sys.executable, str(program), "{input}", "{output}", *option]
    if option:
        return fs.from_command(words), lambda: (tmp_path / "cfg").write_text("919.0")
    return fs.from_command(words), lambda: program.write_text(PROGRAM.replace("else 1.0", "else 919.0"))


KINDS = ["global", "class attribute", "bound method", "array of a closure", "no source", "file"]
PROGRAMS = ["file of an option", "edited program"]


@pytest.mark.parametrize("kind", [*KINDS, *PROGRAMS])
def test_a_campaign_never_holds_two_simulators(kind, tmp_path, monkeypatch):
    num = 3 if kind in PROGRAMS else 20
    simulator, change = two_simulators(kind, tmp_path, monkeypatch)
    first = fs.simulate(simulator, BOX, num, out=tmp_path / "c")
    if change is None:
        simulator = fs.from_python(compiled(919.0))
    else:
        change()
    words = r"files|differs in 2 of 2 numbers, by at most"
    with pytest.raises(fs.CampaignError, match=words):
        fs.simulate(simulator, BOX, 2 * num, out=tmp_path / "c")
    np.testing.assert_array_equal(fs.open_campaign(tmp_path / "c").x, first.x)


def test_an_unchanged_simulator_goes_on_and_what_it_may_change_itself_is_no_obstacle(tmp_path):
    calls, buffer, model = [], np.empty(2), Model()

    def counts(theta, rng):
        calls.append(1)
        buffer[:] = theta + rng.normal(size=2)
        model.count = len(calls)
        return buffer

    simulator = fs.from_python(counts)
    fs.simulate(simulator, BOX, 20, out=tmp_path)
    assert len(fs.simulate(simulator, BOX, 40, out=tmp_path)) == 40
    assert fs.simulate(simulator, BOX, 40, out=tmp_path).fingerprint() == fs.simulate(simulator, BOX, 40).fingerprint()


def test_what_has_changed_is_named_and_so_is_the_difference(tmp_path, monkeypatch):
    simulator = fs.from_python(reads_global)
    fs.simulate(simulator, BOX, 20, out=tmp_path)
    monkeypatch.setitem(globals(), "NOISE", 2.0)
    words = r"record 0 .*x\[[01]\] was .*the global NOISE \(was 1.27, is 2.0\).*choose another folder"
    with pytest.raises(fs.CampaignError, match=words):
        fs.simulate(simulator, BOX, 40, out=tmp_path)
    with pytest.raises(fs.CampaignError, match=r"the global NOISE \(was 1.27, is 2.0\).*leave num_checked=0 out"):
        fs.simulate(simulator, BOX, 40, out=tmp_path, num_checked=0)


def test_rounding_is_told_from_a_changed_simulator_and_can_be_allowed(tmp_path):
    scale = tmp_path / "noise"
    scale.write_text("1.0")
    simulator = fs.from_python(reading(scale))
    fs.simulate(simulator, BOX, 20, out=tmp_path / "c")
    scale.write_text("1.00000000000001")
    with pytest.raises(fs.CampaignError, match=r"rounding on another machine.*pass num_checked=0"):
        fs.simulate(simulator, BOX, 40, out=tmp_path / "c")
    assert len(fs.simulate(simulator, BOX, 40, out=tmp_path / "c", num_checked=0)) == 40


def test_a_simulator_that_is_not_repeatable_is_named_at_once_and_refused_later(tmp_path):
    def unseeded(theta, rng):
        return theta + np.random.default_rng().normal(size=2)

    simulator = fs.from_python(unseeded)
    with pytest.warns(fs.FisherScoreWarning, match=r"not repeatable: record 0"):
        fs.simulate(simulator, BOX, 20, out=tmp_path)
    with pytest.raises(fs.CampaignError, match=r"not repeatable. Draw all random numbers from the generator"):
        fs.simulate(simulator, BOX, 40, out=tmp_path)
    assert len(fs.simulate(simulator, BOX, 40, out=tmp_path, num_checked=0)) == 40


def test_only_as_many_records_are_run_again_as_were_asked_for(tmp_path):
    runs = tmp_path / "runs"

    def noted(theta, rng):
        with runs.open("a") as file:
            file.write("x")
        return theta + rng.normal(size=2)

    simulator, counted = fs.from_python(noted), []
    for num, checked in ((50, 2), (50, 2), (60, 2), (60, 5), (60, 0)):
        before = len(runs.read_text()) if runs.exists() else 0
        fs.simulate(simulator, BOX, num, out=tmp_path / "c", num_checked=checked)
        counted.append(len(runs.read_text()) - before)
    assert counted == [50 + 1, 2, 10 + 2, 5, 0]  # of a new campaign the first, to see that it can be repeated


def test_failures_are_not_run_again_to_know_a_simulator_by(tmp_path):
    def fails_at_the_ends(theta, rng):
        if theta[0] > 0.5:
            raise ValueError("no")
        return theta

    fs.simulate(fs.from_python(fails_at_the_ends), BOX, 20, out=tmp_path)
    assert len(fs.simulate(fs.from_python(fails_at_the_ends), BOX, 30, out=tmp_path)) == 30


def test_functions_of_jax_are_known_by_what_they_do(tmp_path):
    import jax

    def make(noise):
        values = [noise]
        noisy = lambda key, theta: theta + values[0] * jax.random.normal(key, (2,))  # noqa: E731
        return fs.from_jax(noisy, name="same", batch_size=8)

    fs.simulate(make(1.0), BOX, 20, out=tmp_path)
    assert len(fs.simulate(make(1.0), BOX, 30, out=tmp_path)) == 30
    with pytest.raises(fs.CampaignError, match="differs in 2 of 2"):
        fs.simulate(make(1.01), BOX, 60, out=tmp_path)


def test_a_folder_without_records_is_no_obstacle(tmp_path):
    def broken(theta, rng):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fs.simulate(fs.from_python(broken), BOX, 20, out=tmp_path)
    other = fs.uniform(a=(0.0, 1.0), c=(2.0, 4.0))
    sims = fs.simulate(fs.from_python(reads_global), other, 20, seed=3, out=tmp_path)
    np.testing.assert_array_equal(sims.x, fs.simulate(fs.from_python(reads_global), other, 20, seed=3).x)
    assert fs.open_campaign(tmp_path).proposal.names == ("a", "c")


# ---------------------------------------------------------------------------------------------------- merging


def shards(tmp_path, monkeypatch, noise):
    simulator = fs.from_python(reads_global)
    for k in (1, 2):
        monkeypatch.setitem(globals(), "NOISE", noise[k - 1])
        fs.simulate(simulator, BOX, 20, out=tmp_path / str(k), shard=f"{k}/2")
    return simulator, [tmp_path / "1", tmp_path / "2"]


def test_shards_of_two_simulators_are_not_merged(tmp_path, monkeypatch):
    simulator, parts = shards(tmp_path, monkeypatch, (1.0, 919.0))
    with pytest.raises(fs.CampaignError, match=r"/2 read something else .*the global NOISE \(was 1.0, is 919.0\)"):
        fs.merge_campaigns(tmp_path / "all", parts)
    with pytest.raises(fs.CampaignError, match=r"parts: .*/1: record 0 was run again.*differs in 2 of 2"):
        fs.merge_campaigns(tmp_path / "all", parts, simulator=simulator)
    assert not (tmp_path / "all").exists()


def test_what_was_merged_without_its_simulator_is_looked_at_when_it_is_next_extended(tmp_path, monkeypatch):
    simulator, parts = shards(tmp_path, monkeypatch, (1.0, 919.0))
    assert len(fs.merge_campaigns(tmp_path / "all", parts, num_checked=0)) == 20
    shutil.rmtree(tmp_path / "all")
    for part in parts:  # as if what was read could not be seen
        with ledgers.Ledger.create(part, {}) as store:
            store.set_metadata(reads={"constants": {}, "state": {}})
    assert len(fs.merge_campaigns(tmp_path / "all", parts)) == 20
    for noise in (1.0, 919.0):
        monkeypatch.setitem(globals(), "NOISE", noise)
        with pytest.raises(fs.CampaignError, match="differs in 2 of 2"):
            fs.simulate(simulator, BOX, 40, out=tmp_path / "all")


def test_a_lost_record_cured_in_a_shard_is_merged_again(tmp_path, monkeypatch):
    simulator, parts = shards(tmp_path, monkeypatch, (1.0, 1.0))
    lose(parts[0], [4])
    fs.merge_campaigns(tmp_path / "all", parts)
    assert fs.campaign_status(tmp_path / "all").counts == {"ok": 19, "lost": 1}
    fs.simulate(simulator, BOX, 20, out=parts[0], shard="1/2")
    merged = fs.merge_campaigns(tmp_path / "all", parts, simulator=simulator)
    np.testing.assert_array_equal(merged.x, fs.simulate(simulator, BOX, 20).x)
    state = fs.campaign_status(tmp_path / "all")
    assert state.counts == {"ok": 20} and state.earlier["lost"] == 1 and state.num_cured == 1
    lose(parts[0], [4])  # an older copy of a shard changes nothing
    assert fs.merge_campaigns(tmp_path / "all", parts).fingerprint() == merged.fingerprint()


def lose(folder, indices):
    """Make records as they would be, had their worker been killed."""
    from fisherscore.simulation.records import Record

    with ledgers.Ledger.create(folder, {}) as store:
        for index in indices:
            theta = store.read([index]).theta[0]
            store.append([Record(index=index, status="lost", theta=theta, latent=None, x=None, message="killed")])
        store._connection.execute("DELETE FROM earlier")
        store._connection.execute("UPDATE sittings SET num_records = 0 WHERE id > 1")
        store._connection.execute("UPDATE sittings SET num_records = (SELECT count(*) FROM records) WHERE id = 1")
        store._connection.commit()


# ------------------------------------------------------------------------------------- machine and simulator


def test_trouble_of_the_machine_is_run_again_and_failures_of_the_simulator_are_not(tmp_path):
    trouble = {"now": True}
    errors = [MemoryError(), OSError(errno.ENOSPC, "No space left"), OSError(errno.EMFILE, "files"), ValueError("own")]

    def unlucky(theta, rng):
        number = int(rng.integers(8))
        if number < 4 and (trouble["now"] or number == 3):
            raise errors[number]
        return theta

    simulator = fs.from_python(unlucky)
    first = fs.simulate(simulator, BOX, 40, out=tmp_path, num_checked=0)
    assert set(first.status) == {"ok", "lost", "raised"}
    trouble["now"] = False
    second = fs.simulate(simulator, BOX, 40, out=tmp_path)
    assert set(second.status) == {"ok", "raised"}
    np.testing.assert_array_equal(second.status == "raised", first.status == "raised")
    state = fs.campaign_status(tmp_path)
    assert state.earlier == {"lost": int((first.status == "lost").sum())} and state.num_cured == state.earlier["lost"]


@pytest.mark.parametrize("after", [0, 30])
def test_a_machine_that_fails_all_the_time_stops_the_run_and_the_same_call_goes_on(tmp_path, after):
    calls = []

    def full(theta, rng):
        calls.append(1)
        if len(calls) > after and len(calls) < 1000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return theta + rng.normal(size=2)

    simulator = fs.from_python(full)
    with pytest.raises(fs.SimulationError, match=r"The machine, not .*'full'.*No space.*the same call then"):
        fs.simulate(simulator, BOX, 10_000, out=tmp_path, num_checked=0)
    assert len(calls) <= after + 20
    calls.extend([1] * 1000)
    assert set(fs.simulate(simulator, BOX, 100, out=tmp_path).status) == {"ok"}


def test_failures_are_run_again_where_that_is_asked_for_and_it_stays_known(tmp_path):
    down = tmp_path / "down"
    down.touch()

    def asks_a_server(theta, rng):
        x = theta + rng.normal(size=2)
        if down.exists() and x[0] > 1.0:
            raise ConnectionError("the server is down")
        if x[1] > 4.0:
            raise ValueError("too large")
        return x

    simulator = fs.from_python(asks_a_server)
    first = fs.simulate(simulator, BOX, 60, out=tmp_path / "c")
    down.unlink()
    assert fs.simulate(simulator, BOX, 60, out=tmp_path / "c").failure_rate == first.failure_rate > 0
    again = fs.simulate(simulator, BOX, 60, out=tmp_path / "c", retry="raised")
    np.testing.assert_array_equal(again.x, fs.simulate(simulator, BOX, 60).x)
    assert 0 < again.failure_rate < first.failure_rate
    state = fs.campaign_status(tmp_path / "c")
    num = round(60 * first.failure_rate)
    assert state.earlier == {"raised": num} and 0 < state.num_cured < num
    assert f"run again: {num} raised; {state.num_cured} of these records have succeeded since" in str(state)
    with ledgers.Ledger.open(tmp_path / "c") as store:
        assert any("the server is down" in message for *_, message in store.earlier())


def test_kinds_to_be_run_again_are_checked(tmp_path):
    simulator = fs.from_python(reads_global)
    with pytest.raises(fs.ArgumentError, match=r"retry: expected kinds of failures among raised, .* got 'ok'"):
        fs.simulate(simulator, BOX, 20, out=tmp_path, retry="ok")
    with pytest.raises(fs.ArgumentError, match="retry: expected out as well"):
        fs.simulate(simulator, BOX, 20, retry="all")
    with pytest.raises(fs.ArgumentError, match="num_checked: expected a whole number of at least 0"):
        fs.simulate(simulator, BOX, 20, out=tmp_path, num_checked=-1)


SOMETIMES = """
import json, os, sys
import numpy as np
given = json.load(open(sys.argv[1]))
if os.path.exists(os.path.join(os.path.dirname(sys.argv[0]), "down")) and given["theta"]["a"] < 0.5:
    sys.exit("the licence server is down")
np.save(sys.argv[2], [given["seed"]])
"""


def test_the_command_runs_failures_of_a_program_again_once_it_is_named(tmp_path, call_cli):
    (tmp_path / "sim.py").write_text(SOMETIMES)
    (tmp_path / "down").touch()
    words = [sys.executable, tmp_path / "sim.py", "{input}", "{output}"]
    options = ["--parameter", "a=0:1", "--out", tmp_path / "c", "--num-simulations", 6]
    call_cli("simulate", *options, "--num-checked", 0, "--", *words)
    counts = fs.campaign_status(tmp_path / "c").counts
    assert counts["nonzero_exit"] > 0
    (tmp_path / "down").unlink()
    refused = call_cli("retry", tmp_path / "c")
    assert refused.exit_code == 1 and "no program is started only because a file names it" in refused.output
    assert fs.campaign_status(tmp_path / "c").counts == counts
    done = call_cli("retry", tmp_path / "c", "--kind", "nonzero_exit", "--", *words)
    assert done.exit_code == 0 and "run again" in done.output, done.output
    assert fs.campaign_status(tmp_path / "c").counts == {"ok": 6}
    fs.simulate(fs.from_python(reads_global), BOX, 12, out=tmp_path / "python")
    assert "is a Python function" in call_cli("retry", tmp_path / "python").output


# ----------------------------------------------------------------------------- results, folders, ledgers, shapes


@pytest.mark.parametrize("wrong", ["twice", "another"])
def test_a_result_must_be_one_that_was_asked_for(tmp_path, monkeypatch, wrong):
    class Odd(Here):
        def run(self, job):
            for results in super().run(job):
                yield results
                if results[0][0] == 15:
                    yield results if wrong == "twice" else [(99, Outcome("ok", np.zeros(2)))]

    monkeypatch.setattr(sys.modules["fisherscore.simulation.campaign"], "engine_for", lambda *_: Odd())
    with pytest.raises(fs.SimulationError, match=r"gave a result for record (15|99), which was not asked for"):
        fs.simulate(fs.from_python(reads_global), BOX, 30, out=tmp_path)
    monkeypatch.undo()
    sims = fs.simulate(fs.from_python(reads_global), BOX, 30, out=tmp_path)
    np.testing.assert_array_equal(sims.x, fs.simulate(fs.from_python(reads_global), BOX, 30).x)


@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_a_folder_that_goes_away_stops_the_run(tmp_path, monkeypatch, how):
    monkeypatch.setattr(recording, "SECONDS_A_BATCH", 0.0)
    folder, calls = tmp_path / "c", []

    def removes(theta, rng):
        calls.append(1)
        if len(calls) == 30:
            if how == "moved":
                folder.rename(tmp_path / "elsewhere")
            else:
                shutil.rmtree(folder)
            if how == "replaced":
                fs.simulate(fs.from_python(reads_global), BOX, 12, out=folder)
        return theta

    with pytest.raises(fs.CampaignError, match=r"was removed, moved or replaced while"):
        fs.simulate(fs.from_python(removes), BOX, 10_000, out=folder, num_checked=0)
    assert len(calls) < 40


def changing_at(number, calls):
    """Make a simulator whose x has another shape in one of its runs."""

    def changing(theta, rng):
        calls.append(1)
        return np.ones(3 if rng.integers(10_000) == number else 2)

    return fs.from_python(changing)


def test_shapes_that_change_among_the_first_records_are_refused_every_time(tmp_path):
    from fisherscore.simulation.execution.run import Purpose, Stream

    drawn = [np.random.default_rng(Stream(0, Purpose.TRAINING).sequence(i)).integers(10_000) for i in range(30)]
    for _ in range(3):
        with pytest.raises(fs.SimulationError, match=r"changing shape: \[\(2,\), \(3,\)\]"):
            fs.simulate(changing_at(drawn[6], []), BOX, 30, out=tmp_path / "early")
    late = fs.simulate(changing_at(drawn[16], []), BOX, 30, out=tmp_path / "late")
    assert late.status[16] == "bad_output" and late.failures()[0] == {"bad_output": 1}


def foreign(folder, **changes):
    """Write a ledger's facts as another version would."""
    with sqlite3.connect(folder / ledgers.FILE) as connection:
        text = dict(connection.execute("SELECT name, value FROM facts"))["facts"]
        ledgers._write_metadata(connection, json.loads(text) | changes)
    connection.close()


@pytest.mark.parametrize("changes", [{"version": 99}, {"schema": "somebody's"}])
def test_a_ledger_of_an_unknown_version_is_refused_before_anything_is_simulated(tmp_path, changes):
    calls = []

    def noted(theta, rng):
        calls.append(1)
        return theta

    simulator = fs.from_python(noted)
    fs.simulate(simulator, BOX, 12, out=tmp_path)
    foreign(tmp_path, **changes)
    calls.clear()
    with pytest.raises(fs.CampaignError, match=r"is of schema .* Use the version of fisherscore that wrote it"):
        fs.simulate(simulator, BOX, 40, out=tmp_path)
    with pytest.raises(fs.CampaignError, match="is of schema"):
        fs.merge_campaigns(tmp_path, [tmp_path])
    assert not calls


def test_a_ledger_laid_out_otherwise_is_refused_before_anything_is_simulated(tmp_path):
    calls = []

    def noted(theta, rng):
        calls.append(1)
        return theta

    simulator = fs.from_python(noted)
    fs.simulate(simulator, BOX, 12, out=tmp_path)
    with sqlite3.connect(tmp_path / ledgers.FILE) as connection:
        connection.execute("DROP TABLE sittings")
    connection.close()
    calls.clear()
    with pytest.raises(fs.CampaignError, match="damaged"):
        fs.simulate(simulator, BOX, 40, out=tmp_path)
    assert not calls


def test_a_ledger_that_is_a_link_is_refused_before_anything_is_simulated(tmp_path):
    calls = []

    def noted(theta, rng):
        calls.append(1)
        return theta

    simulator = fs.from_python(noted)
    fs.simulate(simulator, BOX, 12, out=tmp_path / "c")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ledgers.FILE).symlink_to(tmp_path / "c" / ledgers.FILE)
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling" / ledgers.FILE).symlink_to(tmp_path / "nowhere")
    calls.clear()
    for folder in (tmp_path / "linked", tmp_path / "dangling"):
        with pytest.raises(fs.CampaignError, match="is a link"):
            fs.simulate(simulator, BOX, 40, out=folder)
    assert not calls
    (tmp_path / "whole").symlink_to(tmp_path / "c")  # a folder may be one: scratch disks are reached so
    assert len(fs.simulate(simulator, BOX, 40, out=tmp_path / "whole")) == 40


def test_a_ledger_made_before_records_could_be_run_again_is_gone_on_with(tmp_path):
    simulator = fs.from_python(reads_global)
    fs.simulate(simulator, BOX, 12, out=tmp_path)
    with sqlite3.connect(tmp_path / ledgers.FILE) as connection:
        connection.execute("DROP TABLE earlier")
    connection.close()
    assert fs.campaign_status(tmp_path).earlier == {}
    lose(tmp_path, [3])
    sims = fs.simulate(simulator, BOX, 20, out=tmp_path)
    np.testing.assert_array_equal(sims.x, fs.simulate(simulator, BOX, 20).x)
    assert fs.campaign_status(tmp_path).earlier == {"lost": 1}


def test_records_larger_than_the_ledger_is_yet_are_kept(tmp_path):
    large = fs.from_python(lambda theta, rng: rng.normal(size=150_000), name="large")
    for num in (1, 2):
        sims = fs.simulate(large, BOX, num, out=tmp_path)
    assert sims.x.shape == (2, 150_000)

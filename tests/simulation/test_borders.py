"""Whatever is given at the borders, proposals draw inside what was asked for, and refusals are in words of ours."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import fisherscore as fs
from fisherscore._support.arguments import as_count, as_finite, as_seed
from fisherscore.analysis.document import Document, statements
from fisherscore.analysis.parameters import read_parameters

QUICK = settings(max_examples=60, deadline=5_000, derandomize=True, database=None)
ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.floats(), max_size=3),
    st.complex_numbers(), st.binary(max_size=3), st.dictionaries(st.text(max_size=2), st.floats(), max_size=2),
    st.sampled_from([10**400, 10**5000, object(), np.float64("nan"), np.int64(3), np.array(["x"]), np.zeros((2, 2))]),
)  # fmt: skip


def refusal_of(call, kind):
    """Return the words of a refusal, or nothing."""
    try:
        call()
    except kind as error:
        return str(error)
    return ""


@QUICK
@given(low=st.floats(), high=st.floats(), seed=st.integers(0, 2**63 - 1))
def test_a_range_is_filled_or_refused(low, high, seed):
    try:
        proposal = fs.uniform(a=(low, high))
    except fs.ArgumentError:
        return
    theta = proposal.sample(200, seed=seed)[:, 0]
    assert theta.min() >= low and theta.max() <= high and len(np.unique(theta)) > 150
    assert abs(theta.mean() - (low + (high - low) / 2)) < 0.2 * (high - low)
    assert np.array_equal(theta[:7], proposal.sample(7, seed=seed)[:, 0])


@QUICK
@given(value=ANYTHING)
def test_arguments_are_taken_or_refused_in_words(value):
    for call in (
        lambda: as_count(value, "num"),
        lambda: as_seed(value),
        lambda: as_finite(value, "x"),
        lambda: fs.uniform(a=value),
        lambda: fs.normal(a=value),
        lambda: fs.uniform(value),
        lambda: fs.uniform(a=(0.0, 1.0)).inside(value),
    ):
        assert len(refusal_of(call, fs.ArgumentError)) < 1_000


KEYS = st.one_of(st.sampled_from(["a", "title", '"b c"', "'#['", '"[\\""']), st.text("abc", min_size=1, max_size=2))
VALUES = st.sampled_from(
    [
        "1",
        "[0, 1]",
        '"x # ["',
        "'''\n[t]\n'''",
        '"""\n# \\""" ]\n"""',
        "[\n 1, # ]\n 2\n]",
        '{ range = [0, 1], unit = "{" }',
    ]
)
LINES = st.one_of(
    st.builds("{} = {}".format, KEYS, VALUES),
    st.builds("[{}]".format, KEYS),
    st.builds("[[{}]]".format, KEYS),
    st.sampled_from(["", "# [a]", "  # = '"]),
)


@QUICK
@given(lines=st.lists(LINES, max_size=12))
def test_every_key_of_an_analysis_file_is_found_on_its_line(lines, tmp_path_factory):
    file = tmp_path_factory.mktemp("toml") / "a.toml"
    file.write_text("\n".join(lines))
    try:
        document = Document(file)
    except fs.ConfigurationError:
        return  # a key given twice, say
    parts = list(statements(document.text))
    assert [text for _, text in parts] == [line.strip() for line in lines if line.strip() and line.strip()[0] != "#"]
    split = document.text.splitlines()
    assert all(split[line - 1].strip() == text.splitlines()[0] for line, text in parts)
    for key in document.tree:
        assert key in split[document.line((key,)) - 1].replace("\\", "")
    refusal = refusal_of(lambda: read_parameters(document), fs.ConfigurationError)
    assert not refusal or refusal.startswith(f"{file}, line ")

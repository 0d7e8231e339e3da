"""Every page of the documentation runs and prints what it shows, and the scripts made from tutorials are up to date.

What may differ between the output shown on a page and the one printed is stated in docs/printed.py.
"""

import contextlib
import importlib.util
import io
import itertools
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What a page may show without running it, with or without a prompt.
SHOWN_ONLY = re.compile(
    r"(\$ )?((pip|make|sbatch|srun|python -m venv|git|cd|source)( |$)|python benchmarks/\w+\.py"
    r"|fisherscore --install-completion$)|#"
)


def load(name):
    """Import a script of the documentation, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


to_script, printed = load("to_script"), load("printed")


def blocks_of(page, *languages):
    return [b for b in to_script.blocks(page.read_text()) if b.language in languages]


def code_and_output(page):
    """Pair the blocks of code of a page with the blocks that show what they print, or with None."""
    parts = [b for b in to_script.blocks(page.read_text()) if b.language is not None or b.text.strip()]
    for block, following in itertools.zip_longest(parts, parts[1:]):
        if block.language in ("python", "sh"):
            shows_output = following is not None and following.language == "text" and following.title is None
            yield block, following if shows_output else None


def name_of(page):
    return str(page.relative_to(ROOT))


def execute(page, folder):
    """Run the blocks of a page in an empty folder that holds ``examples``, and compare what they print with the page.

    Return the namespace of the page's Python.
    """
    import matplotlib.pyplot as plt

    shutil.copytree(EXAMPLES, folder / "examples")
    # A module by this name: what the page defines is sent to worker processes by value.
    namespace = types.ModuleType("__main__").__dict__
    wrong = []
    try:
        for block, shown in code_and_output(page):
            try:
                run = run_python if block.language == "python" else run_shell
                output = run(block, page, folder, namespace)
            except (Exception, SystemExit) as error:
                raise AssertionError(
                    f"{page}:{block.line}: the {block.language} block failed: {type(error).__name__}: {error}"
                ) from error
            print(output)
            if shown is not None:
                wrong += [f"{page}:{shown.line}: {line}" for line in printed.differences(shown.text, output)]
    finally:
        plt.close("all")
    assert not wrong, "what is printed is not what the page shows:\n" + "\n".join(wrong)
    return namespace


def run_python(block, page, folder, namespace):
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(code, namespace)
    return output.getvalue()


def run_shell(block, page, folder, namespace):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],  # noqa: S607
        cwd=folder,
        check=False,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def check_external_program(namespace, output):
    """Compare the posterior of the decaying source with the exact one, from a grid."""
    assert "fit for a campaign" in output
    amplitude, lifetime = np.meshgrid(np.linspace(20, 80, 200), np.linspace(0.5, 2, 200), indexing="ij")
    means = amplitude[..., None] * -np.diff(np.exp(-np.arange(7) / 2 / lifetime[..., None]), axis=-1)
    log_likelihood = np.sum(np.array([12, 10, 7, 5, 3, 2]) * np.log(means) - means, axis=-1)
    weights = np.exp(log_likelihood - log_likelihood.max()).ravel()
    points = np.stack([amplitude, lifetime], axis=-1).reshape(-1, 2)
    mean = np.average(points, axis=0, weights=weights)
    deviation = np.sqrt(np.average((points - mean) ** 2, axis=0, weights=weights))
    samples = namespace["posterior"].samples
    assert (np.abs(samples.mean(axis=0) - mean) < 0.35 * deviation).all()
    np.testing.assert_allclose(samples.std(axis=0), deviation, rtol=0.3)


def check_population_genetics(namespace, output):
    """What the spectrum does not see is known: it depends on N μ and N α."""
    (free,) = namespace["known"].unconstrained
    wanted = np.array([-1.0, 1.0, 1.0])
    cosine = abs(free.direction @ wanted) / np.linalg.norm(free.direction) / np.linalg.norm(wanted)
    assert np.degrees(np.arccos(cosine)) < 10
    assert not namespace["known"].badly_learned and namespace["posterior"].trusted
    assert "No check failed" in output or "checks passed" in output


# What pages give beyond running, where the right answer is known here.
CHECKS = {
    "docs/tutorials/external_program.md": check_external_program,
    "docs/tutorials/population_genetics.md": check_population_genetics,
}


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks_of(p, "python", "sh")], ids=name_of)
def test_a_page_runs_and_prints_what_it_shows(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(page)])
    mpl.use("Agg")
    namespace = execute(page, tmp_path)
    if check := CHECKS.get(name_of(page)):
        check(namespace, capsys.readouterr().out)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_only_what_cannot_run_is_shown_without_running(page):
    for block in blocks_of(page, "console"):
        commands = re.sub(r"\\\n", " ", block.text).splitlines()
        wrong = [c for c in commands if c.strip() and not SHOWN_ONLY.match(c)]
        assert not wrong, f"{page}:{block.line}: {wrong} should be in a block of sh, which is run"


@pytest.mark.parametrize(
    ("language", "broken"),
    [("python", "assert answer == 43"), ("sh", "test -e nothing"), ("python", "raise SystemExit")],
)
def test_a_broken_block_is_reported_with_its_page_and_line(language, broken, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(f"A page.\n\n```python\nanswer = 42\n```\n\n1. and\n\n    ```{language}\n    {broken}\n    ```\n")
    with pytest.raises(AssertionError, match=r"page\.md:10"):
        execute(page, tmp_path / "run")


def test_warnings_and_blocks_left_open_are_failures(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nimport warnings\nwarnings.warn('careful')\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:2.*careful"):
        execute(page, tmp_path / "run")
    with pytest.raises(ValueError, match="line 2 is not closed"):
        list(to_script.blocks("```python\nx = 1\n"))


def test_blocks_are_found_in_lists_and_tabs_and_run_in_the_folder(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(
        '=== "Shell"\n\n    ```sh\n    echo 3 > three; which fisherscore\n    ls examples/decay.sh\n    ```\n\n'
        "Then\n\n```text\nnot run\n```\n\n~~~python\nfrom pathlib import Path\n\n\n"
        "def three():\n    return int(Path('three').read_text())\n\n\nnumber = three()\n~~~\n"
    )
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.chdir(folder)
    namespace = execute(page, folder)
    assert namespace["number"] == 3 and namespace["three"].__module__ == "__main__"


PRINTS = """A page.

```python
print("level = 0.191 ± 0.14, 4,000 draws")
```

```text
{shown}
```

```sh
echo "took 3.5 s; 2 runs in $PWD"
```

```text
took 0.1 s; {runs} runs in /somewhere/else
```
"""


@pytest.mark.parametrize(
    ("shown", "runs", "message"),
    [
        ("level = 0.191 ± 0.14, 4,000 draws", 2, None),
        ("level = 0.21  ± 0.13, 4,000 draws", 2, None),
        ("tilt  = 0.191 ± 0.14, 4,000 draws", 2, r"page\.md:8: shown: 'tilt"),
        ("level = 0.382 ± 0.14, 4,000 draws", 2, r"page\.md:8: shown: 'level"),
        ("level = 0.191 ± 0.14, 8,000 draws", 2, r"page\.md:8: shown: 'level"),
        ("level = 0.191 ± 0.14, 4,000 draws\nconverged", 2, r"page\.md:8: shown: 'converged', printed: None"),
        ("level = 0.191 ± 0.14, 4,000 draws", 3, r"page\.md:16: shown: 'took <duration>; 3 runs"),
    ],
)
def test_what_is_printed_is_compared_with_what_is_shown(shown, runs, message, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PRINTS.format(shown=shown, runs=runs))
    with pytest.raises(AssertionError, match=message) if message else contextlib.nullcontext():
        execute(page, tmp_path / "run")


def test_only_output_right_after_code_and_without_a_title_is_compared(tmp_path):
    page = tmp_path / "page.md"
    code = "```python\nprint(1)\n```\n\n"
    page.write_text(f'{code}```text title="yours will differ"\n2\n```\n\n{code}In words:\n\n```text\n3\n```\n')
    execute(page, tmp_path / "run")
    assert [output for _, output in code_and_output(page)] == [None, None]


POSTERIOR = """
parameter  mean        sd        16 %       84 %      R-hat  ESS
slope      0.66759     0.14783   0.51851    0.81491   1.001  3430
offset     -0.0017295  0.046168  -0.047562  0.043747  1.000  2946
no problem found
"""


@pytest.mark.parametrize(
    ("old", "new", "agree"),
    [
        ("-0.0017295", "0.0102", True),  # a fraction of its error
        ("-0.0017295", "0.102", False),
        ("0.14783", "0.15566", True),
        ("0.14783", "0.29566", False),
        ("2946", "1800", True),
        ("2946", "300", False),
        ("slope  ", "slope", True),  # columns are aligned otherwise
        ("slope", "slopes", False),
        ("no problem", "a problem", False),
    ],
)
def test_rows_of_tables_may_differ_by_a_fraction_of_their_errors(old, new, agree):
    assert (printed.differences(POSTERIOR, POSTERIOR.replace(old, new)) == []) is agree


@pytest.mark.slow
def test_functions_of_a_page_reach_worker_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nimport fisherscore as fs\n\nwidth = 2.0\n\n\ndef helper(theta):\n    return theta / width\n\n\n"
        "def simulator(theta, rng):\n    return rng.normal(helper(theta))\n\n\n"
        "sims = fs.simulate(fs.from_python(simulator), fs.uniform(a=(0.0, 1.0)), 30, workers=2)\n```\n"
    )
    assert execute(page, tmp_path / "run")["sims"].failure_rate == 0


def test_the_scripts_are_what_the_tutorials_give():
    tutorials = {p.stem: p for p in (ROOT / "docs" / "tutorials").glob("*.md")}
    assert {p.stem for p in EXAMPLES.glob("*.py")} == tutorials.keys(), "run: python docs/to_script.py"
    for name, page in tutorials.items():
        text = (EXAMPLES / f"{name}.py").read_text()
        assert text == to_script.script(page.read_text(), name), f"{page} has changed; run: python docs/to_script.py"


def test_a_script_has_code_and_markdown_cells():
    page = "# Title\n\nRun\n\n```sh\nls\n```\n\n```python\nx = 1\n```\n\n```python\ny = 2\n```\n\nThe end.\n"
    text = to_script.script(page, "title")
    assert text.endswith(
        "\n\n# %% [markdown]\n# # Title\n#\n# Run\n#\n# ```sh\n# ls\n# ```\n\n# %%\nx = 1\n\n\n# %%\ny = 2\n\n\n"
        "# %% [markdown]\n# The end.\n"
    )
    compile(text, "title.py", "exec")

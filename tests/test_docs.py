"""Every page of the documentation runs as it is printed, and the scripts made from the tutorials are up to date."""

import importlib.util
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


def load_to_script():
    spec = importlib.util.spec_from_file_location("to_script", ROOT / "docs" / "to_script.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["to_script"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


to_script = load_to_script()


def blocks_of(page, *languages):
    return [b for b in to_script.blocks(page.read_text()) if b.language in languages]


def name_of(page):
    return str(page.relative_to(ROOT))


def execute(page, folder):
    """Run the blocks of a page, top to bottom, in an empty folder that holds ``examples``; return its namespace."""
    import matplotlib.pyplot as plt

    shutil.copytree(EXAMPLES, folder / "examples")
    # A module by this name: what the page defines is sent to worker processes by value.
    namespace = types.ModuleType("__main__").__dict__
    try:
        for block in blocks_of(page, "python", "sh"):
            try:
                (run_python if block.language == "python" else run_shell)(block, page, folder, namespace)
            except (Exception, SystemExit) as error:
                raise AssertionError(
                    f"{page}:{block.line}: the {block.language} block failed: {type(error).__name__}: {error}"
                ) from error
    finally:
        plt.close("all")
    return namespace


def run_python(block, page, folder, namespace):
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    exec(code, namespace)


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
    print(done.stdout)
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}\n{done.stdout}\n{done.stderr}")


def check_external_program(namespace, printed):
    """Compare the posterior of the decaying source with the exact one, from a grid."""
    assert "fit for a campaign" in printed
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


# What pages give beyond running, where the right answer is known here.
CHECKS = {"docs/tutorials/external_program.md": check_external_program}


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks_of(p, "python", "sh")], ids=name_of)
def test_a_page_runs_as_printed(page, tmp_path, monkeypatch, capsys):
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
        "```text\nnot run\n```\n\n~~~python\nfrom pathlib import Path\n\n\n"
        "def three():\n    return int(Path('three').read_text())\n\n\nfound = three()\n~~~\n"
    )
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.chdir(folder)
    namespace = execute(page, folder)
    assert namespace["found"] == 3 and namespace["three"].__module__ == "__main__"


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

"""Build the wheel and the source archive, and try each as a user would; ``make archives`` runs this.

The wheel and a wheel made of the source archive must hold the same files. Each archive is installed into an environment
of its own, where README's ten lines are run in an empty folder.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Shown after the ten lines: where the package was found, and which it is.
TELL = "\nprint(fs.__version__, fs.__file__)\n"


def run(*command: str | Path, folder: Path) -> str:
    """Run a command in a folder, or end with what it wrote."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def environment(folder: Path) -> Path:
    """Make an environment with nothing but pip, and return its interpreter."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def built(source: Path, folder: Path, builder: Path) -> tuple[Path, Path]:
    """Build both archives of a source tree, and return the wheel and the source archive."""
    run(builder, "-m", "hatchling", "build", "-d", folder, folder=source)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def contents(wheel: Path) -> dict[str, str]:
    """Return the files of a wheel and a hash of each."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def differences(one: Path, other: Path) -> list[str]:
    """Name the files that only one of two wheels has, or that are not the same in both."""
    first, second = contents(one), contents(other)
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def ten_lines(page: str) -> str:
    """Return the code under README's heading «Ten lines»."""
    found = re.search(r"^## Ten lines\n+```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    if found is None:
        sys.exit("README.md has no block of Python under «Ten lines»")
    return found[1]


def tried(archive: Path, folder: Path) -> str:
    """Install an archive into an environment of its own, run the ten lines there, and return what they print."""
    folder.mkdir()
    python = environment(folder / "environment")
    started = time.monotonic()
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", archive, folder=folder)
    installed = time.monotonic()
    script = folder / "ten_lines.py"
    script.write_text(ten_lines((ROOT / "README.md").read_text()) + TELL)
    printed = run(python, "-I", script, folder=folder)
    version, place = printed.split()[-2:]
    if not Path(place).is_relative_to(folder / "environment") or f"-{version}" not in archive.name:
        sys.exit(f"{archive.name}: version {version} was imported from {place}")
    seconds = f"installed in {installed - started:.0f} s, ten lines in {time.monotonic() - installed:.0f} s"
    print(f"{archive.name}: {seconds}", flush=True)
    return printed


def main() -> None:
    """Build both archives, compare them, and try both at the same time."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        builder = environment(folder / "builder")
        run(builder, "-m", "pip", "install", "-q", "--disable-pip-version-check", "hatchling>=1.24", folder=folder)
        wheel, source = built(ROOT, folder / "dist", builder)
        with tarfile.open(source) as archive:
            archive.extractall(folder / "unpacked", filter="data")
        again, _ = built(next((folder / "unpacked").iterdir()), folder / "again", builder)
        if unlike := differences(wheel, again):
            sys.exit(f"The wheel of the source archive is another one: {', '.join(unlike)}")
        print(f"{wheel.name} and {source.name} hold the same package, {len(contents(wheel))} files", flush=True)
        shutil.rmtree(folder / "builder")
        with ThreadPoolExecutor(2) as pool:
            jobs = [
                pool.submit(tried, archive, folder / kind) for archive, kind in ((wheel, "wheel"), (source, "source"))
            ]
            printed = [job.result() for job in jobs]
    print(printed[0])
    print(f"Both archives were built, installed and tried in {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()

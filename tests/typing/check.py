"""Check the types a user sees, with mypy in strict mode; ``make types`` runs this.

``user_script.py`` has every public name in it and must pass. ``wrong_script.py`` is the control: it must fail with
the errors its comments name and with no others.
"""

import re
import sys
from pathlib import Path

from mypy import api

import fisherscore as fs

FOLDER = Path(__file__).parent
STRICT = ["--strict", "--config-file=", "--cache-dir=.mypy_cache/user", "--no-error-summary"]


def errors_of(script: Path) -> set[tuple[int, str]]:
    """Return the line and the code of every error mypy finds in a script, and print them."""
    output, complaint, code = api.run([*STRICT, str(script)])
    if code not in (0, 1):
        sys.exit(f"mypy could not check {script}: {complaint or output}")
    print(output, end="")
    return {(int(line), code) for line, code in re.findall(r"^[^:\n]+:(\d+): error: .*\[([\w-]+)\]$", output, re.M)}


def expected_errors_of(script: Path) -> set[tuple[int, str]]:
    """Read which errors a script names in its comments."""
    lines = enumerate(script.read_text().splitlines(), 1)
    return {(n, code) for n, line in lines if "# expect:" in line for code in line.split("# expect: ")[1].split(", ")}


def main() -> None:
    """Check both scripts, and that no public name is left out."""
    user, wrong = FOLDER / "user_script.py", FOLDER / "wrong_script.py"
    unused = [name for name in fs.__all__ if not re.search(rf"\bfs\.{name}\b", user.read_text())]
    if unused:
        sys.exit(f"{user} should use these public names too: {', '.join(unused)}")
    if errors_of(user):
        sys.exit(f"{user}: a user's script does not pass the type checker.")
    if (errors := errors_of(wrong)) != (expected := expected_errors_of(wrong)):
        sys.exit(f"{wrong}: expected the errors {sorted(expected)}, got {sorted(errors)}.")
    print("A user's script passes mypy in strict mode, and a wrong one gets the errors it should.")


if __name__ == "__main__":
    main()

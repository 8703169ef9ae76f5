"""The size of the house beside its goals: lines, files, folders, class names and documentation.

    python benchmarks/house.py

Counts what git tracks. The goals are those of the restructuring of the code; a goal that is missed is no
failure, and the exit code is 0.
"""

import argparse
import ast
import json
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Upper limits.
GOALS = {
    "program, lines": 52_000,
    "program, files": 330,
    "tests, lines": 36_000,
    "largest folder, modules": 15,
    "public class names defined twice": 0,
    "README, KB": 8,
    "docs, KB": 110,
}

#: Generated pages of `docs/` that list facts and are as long as the facts are many.
FACTS = ("coverage.md", "claims.md")


def tracked() -> list[Path]:
    """Files of the checkout that git tracks and that are there."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def below(files: list[Path], *folders: str) -> list[Path]:
    """Those of `files` that lie in one of the top-level folders."""
    return [file for file in files if file.relative_to(ROOT).parts[0] in folders]


def lines(files: list[Path]) -> int:
    """Lines of all files together."""
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def public_classes(files: list[Path]) -> Counter[str]:
    """How often each public class name is defined at the top level of a module."""
    return Counter(
        node.name
        for file in files
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def kilobytes(files: list[Path]) -> float:
    """Size of all files together, in units of 1024 bytes."""
    return sum(file.stat().st_size for file in files) / 1024


def measured() -> dict[str, float]:
    """Each quantity of `GOALS` as it is now."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages: list[str] = project["tool"]["uv"]["build-backend"]["module-name"]
    files = tracked()
    program = [file for file in below(files, *packages) if file.suffix == ".py"]
    prose = [file for file in below(files, "docs") if file.suffix == ".md" and file.name not in FACTS]
    folders = Counter(file.parent for file in program if file.name != "__init__.py")
    return {
        "program, lines": lines(program),
        "program, files": len(program),
        "tests, lines": lines([file for file in below(files, "tests") if file.suffix == ".py"]),
        "largest folder, modules": max(folders.values()),
        "public class names defined twice": sum(n > 1 for n in public_classes(program).values()),
        "README, KB": round(kilobytes([ROOT / "README.md"]), 1),
        "docs, KB": round(kilobytes(prose), 1),
    }


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    now = measured()
    if parser.parse_args().json:
        print(json.dumps(now))
        return
    print(f"{'':34} {'now':>10} {'goal':>10}")
    for name, goal in GOALS.items():
        missed = "" if now[name] <= goal else "  missed"
        print(f"{name:34} {now[name]:>10,} {goal:>10,}{missed}")


if __name__ == "__main__":
    main()

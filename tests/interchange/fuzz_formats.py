"""Run by hand, with atheris installed: bytes that coverage finds, for one format, for some seconds.

python tests/interchange/fuzz_formats.py FORMAT SECONDS FOLDER

FOLDER keeps the inputs found, and a crash as `crash-*`.
"""

import sys
import tempfile
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

with atheris.instrument_imports(include=["interchange", "workflows.transfer.import_runs"]):
    from support.builders.foreign_files import SAMPLES, fuzzed, good, tried, written


def main(name: str, seconds: str, folder: str) -> None:
    """Fuzz one format; ends with an error at the first thing that is neither read nor BadFile."""
    inputs = Path(folder) / name
    inputs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as temporary:
        path = written(Path(temporary), SAMPLES[name]) if name in SAMPLES else Path(temporary)
        file = fuzzed(Path(temporary), name)
        (inputs / "good").write_bytes(good(name))

        def one_input(data: bytes) -> None:
            file.write_bytes(data)
            tried(name, path)

        options = [f"-max_total_time={seconds}", "-timeout=20", "-max_len=8192", "-rss_limit_mb=4096"]
        prefix = f"-artifact_prefix={Path(folder).resolve()}/{name}-"
        atheris.Setup([sys.argv[0], str(inputs), *options, prefix], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:4])

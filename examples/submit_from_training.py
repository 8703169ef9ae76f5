"""Copy `write_results` into a training script; `pyrometer submit FILE` then adds a point to each series."""

import json
import platform
import sys
import time
from datetime import datetime, timezone

import torch

STARTED_AT = datetime.now(timezone.utc).isoformat()  # noqa: UP017 -- training scripts run on older Pythons


def write_results(path, suite, case, **metrics):
    """Write what one process measured; `metrics` maps a name to (value, unit, "lower" or "higher")."""
    gpus = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    result = {
        "suite": suite,
        "case": case,
        "started_at": STARTED_AT,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "gpus": [{"name": gpu.name, "memory_mib": gpu.total_memory // 2**20} for gpu in gpus],
        "metrics": {
            name: {"value": value, "unit": unit, "better": better}
            for name, (value, unit, better) in metrics.items()
        },
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file)


def train(steps=20, batch=32):
    """Your training goes here; this one teaches a line to a layer. Returns loss and samples per second."""
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(batch, 8)
    begun = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item(), steps * batch / (time.perf_counter() - begun)


if __name__ == "__main__":
    final_loss, rate = train()
    write_results(
        sys.argv[1] if len(sys.argv) > 1 else "results.json",
        "training",
        "line/train/batch=32",
        samples_per_second=(rate, "samples/s", "higher"),
        final_loss=(final_loss, "", "lower"),
    )

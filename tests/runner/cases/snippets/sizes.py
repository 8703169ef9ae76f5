"""Parameters and operations of every model at a given size, on the meta device: nothing is computed."""

import json

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from runner.cases import bert, diffusion, gpt2, resnet, small_networks, transformer_xl, vit  # noqa: F401
from runner.worker.case import REGISTER

SIZES = [
    ("resnet50", {"batch": 2, "image": 224}),
    ("resnet50", {"batch": 1, "image": 97}),
    ("bert_base", {"batch": 1, "tokens": 128, "layers": 12}),
    ("bert_base", {"batch": 3, "tokens": 40, "layers": 2}),
    ("bert_large", {"batch": 1, "tokens": 128, "layers": 24}),
    ("bert_large", {"batch": 3, "tokens": 40, "layers": 2}),
    ("vit_b", {"batch": 1, "image": 224}),
    ("vit_b", {"batch": 3, "image": 64}),
    ("unet_block", {"batch": 1, "channels": 320, "side": 64}),
    ("unet_block", {"batch": 3, "channels": 64, "side": 16}),
    ("gpt2_small", {"batch": 1, "tokens": 128, "layers": 12}),
    ("gpt2_small", {"batch": 3, "tokens": 40, "layers": 2}),
    ("transformer_xl", {"batch": 1, "tokens": 150, "layers": 16}),
    ("transformer_xl", {"batch": 3, "tokens": 40, "layers": 2}),
    ("lstm_lm", {"batch": 4, "tokens": 35}),
    ("custom_gru_cell", {"batch": 16, "steps": 64, "hidden": 256}),
    ("custom_gru_cell", {"batch": 3, "steps": 5, "hidden": 40}),
    ("custom_cnn", {"batch": 32}),
    ("mlp_overhead", {"batch": 64}),
]


def counted(call):
    # The fused kernels of the CPU are invisible to the counter; written-out attention is not.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        call()
    return counter.get_total_flops()


def measure(name, parameters):
    with torch.device("meta"):
        workload = REGISTER[name].build(**parameters)
    model = workload.model.eval()
    return {
        "name": name,
        "size": parameters,
        "parameters": sum(p.numel() for p in model.parameters()),
        "flops": workload.flops,
        "counted": counted(lambda: model(*workload.inputs)),
        "items": workload.items,
        "unit": workload.unit,
        "checkpointed": workload.checkpointed,
    }


print(
    json.dumps(
        {
            "register": {
                case.name: {"grid": dict(case.grid), "phases": case.phases, "summary": case.summary}
                for case in REGISTER.values()
            },
            "sizes": [measure(name, parameters) for name, parameters in SIZES],
        }
    )
)

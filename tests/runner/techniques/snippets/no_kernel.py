"""What a worker makes of PyTorch's errors about an operator without a kernel for a number format."""

import json

import torch

from runner.worker.worker_loop import failure

try:
    torch.bitwise_and(torch.ones(2), torch.ones(2))
except (NotImplementedError, RuntimeError) as error:
    raised = failure(error, "first_call").status
older = failure(RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'"), "first_call").status
other = failure(RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "first_call").status
print(json.dumps({"raised": raised, "older": older, "other": other}))

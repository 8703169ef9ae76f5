"""Which environment variables are part of what is measured."""

from collections.abc import Mapping

#: Variables that change what PyTorch does; others are not recorded and may hold secrets.
RELEVANT_VARIABLES = (
    "ATEN_",
    "BLIS_",
    "CUBLAS_",
    "CUDA_",
    "CUDNN_",
    "DNNL_",
    "GLIBC_TUNABLES",
    "GOMP_",
    "GOTO_",
    "KMP_",
    "LD_PRELOAD",
    "MALLOC_",
    "MKL_",
    "NCCL_",
    "NUMEXPR_",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "PYTORCH_",
    "TORCH_",
    "TORCHDYNAMO_",
    "TORCHINDUCTOR_",
    "TRITON_",
)

#: What PyTorch's allocator for CUDA reads when it is first used.
ALLOCATOR_VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"

#: They name places, not behaviour.
_PLACES = (
    "CUDA_CACHE_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_HOME",
    "TRITON_CACHE_DIR",
)


def relevant_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables in `environ` that may change a measurement, sorted by name."""
    return {
        name: environ[name]
        for name in sorted(environ)
        if name.startswith(RELEVANT_VARIABLES) and name not in _PLACES
    }

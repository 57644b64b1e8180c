"""What an operator's name tells: what it computes, and whether it computes anything at all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kinetoscope.schema import Kind

#: operators that only make another view of the same memory
VIEWS = frozenset(
    """
    _reshape_alias _unsafe_view alias as_strided broadcast_tensors broadcast_to chunk detach detach_
    diagonal expand expand_as flatten lift_fresh movedim moveaxis narrow numpy_T permute real imag reshape
    reshape_as resolve_conj resolve_neg select slice split split_with_sizes squeeze squeeze_ swapaxes
    swapdims t tensor_split transpose transpose_ unbind unflatten unfold unsafe_chunk unsafe_split
    unsqueeze unsqueeze_ view view_as view_as_complex view_as_real _reinterpret_tensor hsplit vsplit
    """.split()  # noqa: SIM905 - a list would be a page long
)
#: operators that read one number back to the CPU
READS_BACK = frozenset(("item", "_local_scalar_dense", "is_nonzero"))
_ALLOCATES = frozenset(
    """
    empty empty_like empty_strided new_empty new_empty_strided resize_ resize_as_ set_ _alloc_from_pool
    is_pinned pin_memory record_stream result_type requires_grad_ _has_compatible_shallow_copy_type
    """.split()  # noqa: SIM905
)
# What a copy or a fill is called before the operator that does it, and composites of others.
_DELEGATES = frozenset(
    """
    clone contiguous to _to_copy ones ones_like zeros zeros_like full full_like new_zeros new_ones
    new_full zero_ scalar_tensor matmul linear einsum
    """.split()  # noqa: SIM905
)
#: work that other operators also do for themselves
HELPERS = frozenset(("copy_", "fill_"))
_ENGINE = ("autograd::engine", "torch::autograd", "torch::jit", "profiler")


def is_operator(name: str) -> bool:
    """Whether the name is that of an operator (``aten::mm``, ``mylib::op``), not of a part of the engine."""
    return "::" in name and not name.startswith(_ENGINE)


def is_work(name: str) -> bool:
    """Whether an operator can do work of its own: no view, no allocation, no name for other operators."""
    short = name.rpartition("::")[2]
    return is_operator(name) and not (
        short in VIEWS or short in READS_BACK or short in _ALLOCATES or short in _DELEGATES
    )


def is_aten_beyond_views(name: str) -> bool:
    """Whether it is an aten operator other than views and those that read a number back."""
    namespace, _, short = name.rpartition("::")
    return namespace == "aten" and short not in VIEWS and short not in READS_BACK


def operator_kind(operator: str) -> Kind:
    """What an operator (``aten::addmm``, ``mylib::attention``) computes, from its name."""
    namespace, _, short = operator.rpartition("::")
    if namespace in ("c10d", "_c10d_functional", "c10d_functional"):
        return "communication"
    for kind, pattern in _BY_OPERATOR:
        if pattern.search(short):
            return kind
    return "pointwise" if namespace == "aten" else "other"


def _patterns(*rows: tuple[Kind, str]) -> Sequence[tuple[Kind, re.Pattern[str]]]:
    return [(kind, re.compile(pattern)) for kind, pattern in rows]


_BY_OPERATOR = _patterns(
    ("attention", r"(?i:attention|flash_attn|fmha)"),
    ("convolution", r"(?i:conv(?!ert)|im2col|col2im)"),
    (
        "gemm",
        r"(?i:^_?(?:add|badd|b|badd?b|scaled_|int_|weight_int\d\w*_)?b?mm(?:_out|_)?$|^addmv|^mv$|^dot$|matmul|linear$"
        r"|_linear|linear_|gemm|einsum|^_grouped_mm)",
    ),
    ("normalization", r"(?i:(?<!linalg_vector_)(?<!linalg_)norm(?:_backward)?$|softmax|_norm_)"),
    ("optimizer", r"^_fused_(?:adam|sgd|adagrad)|^_foreach_(?!copy)|addcdiv"),
    ("sort", r"^(?:sort|argsort|topk|msort|unique)"),
    ("copy", r"^(?:copy_?|_to_copy|clone|contiguous|cat|_cat|stack|_foreach_copy_|pad|constant_pad_nd|to)$"),
    (
        "reduction",
        r"^(?:sum|mean|a?max|a?min|arg(?:max|min)|prod|var|std|var_mean|any|all|norm|linalg_vector_norm|logsumexp"
        r"|cumsum|cumprod|nonzero|count_nonzero|nll_loss\w*|mse_loss|\w*pool\w*|embedding_dense_backward"
        r"|bincount|histc)$",
    ),
)

"""What a kernel's name tells: whether Inductor or a user's Triton wrote it, and what it computes.

Three sources of names are told apart, each by forms that were seen in traces:

- Triton: plain identifiers. Inductor's start with ``triton_`` and a word for the kind of loop
  (``poi``, ``red``, ``per``, ``tem`` ...); before torch 2.2 they are ``triton__0d1d2de``, where the tail
  describes the arguments. A user's kernel carries the name of its Python function.
- Libraries: cuBLAS, cuDNN, CUTLASS, rocBLAS and hipBLASLt (``Cijk_``), MIOpen, composable kernel,
  flash and memory-efficient attention, NCCL and RCCL.
- ATen and everybody's C++ templates: the function's name comes before the template arguments, so
  the outer name is asked first and the arguments only for what an elementwise kernel does.

Nothing here looks at anything but the name, so each distinct name is asked once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kinetoscope.schema import Kind

KINDS: tuple[Kind, ...] = (
    "gemm",
    "convolution",
    "attention",
    "normalization",
    "reduction",
    "pointwise",
    "sort",
    "copy",
    "communication",
    "optimizer",
    "other",
)
#: what compiled code leaves to libraries by design
LIBRARY_KINDS: frozenset[Kind] = frozenset(("gemm", "convolution", "attention"))

_LOOPS = "poi|red|per|tem|spl|for|mix|unk"
_TEMPLATES = "mm|addmm|bmm|baddbmm|scaled_mm|int_mm|flex_attention|flex_decoding|convolution"
# what Triton before 3.0 appended to a kernel's name: number and traits of each argument, from 0
_ARGUMENTS = r"0(?=\d*[dec])\d*(?:[dec]+\d+)*[dec]*"
_INDUCTOR = re.compile(rf"triton_(?:(?:{_LOOPS})(?:_|$)|(?:{_TEMPLATES})\w*_\d+$|_?(?:{_ARGUMENTS})?$|\d+$)")
_OLD_TRITON = re.compile(rf"\w_{_ARGUMENTS}$")
_INDUCTOR_CPP = re.compile(r"graph_\d+_\w+$|(?:kernel_)?cpp_\w+$|CppMicroGemm\w*$")
_NAMELESS = re.compile(rf"triton_(?:(?:{_LOOPS})(?:_fused)?(?:_\d+)?|_?(?:{_ARGUMENTS})?|\d+)$")
_PLAIN = re.compile(r"[A-Za-z_]\w*$")
# plain identifiers that are functions of a library, not of a Python program
_LIBRARY = re.compile(
    r"_Z|Cijk_|nvjet|(?:kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)_|sm\d+_|gfx\d|cudnn|cutlass"
    r"|igemm_|fmha|bmm_[BEMF]|gemm|gemv|gemmk|cublas|ncclK|ncclD|rccl|SubTensorOp|Op\d?d?Tensor|Op\dd|MIOpen|miopen"
    r"|mlo|Im\d?d?2?|Col2Im|batched_transpose|transpose_[CN]|naive_conv|attn_(?:fwd|bwd)$|bwd_kernel|reduction_prod"
    r"|rocblas|hipblas|__amd_|wvSplitK|winograd|memset|memcpy"
)


def is_inductor_triton(name: str) -> bool:
    """Whether Inductor generated this Triton kernel."""
    return _INDUCTOR.match(name) is not None


def is_inductor_cpp(name: str) -> bool:
    """Whether a CPU event is a kernel that Inductor generated in C++ (seen only with kernel profiling on)."""
    return _INDUCTOR_CPP.match(name) is not None


def has_triton_arguments(name: str) -> bool:
    """Whether the name ends in the description of arguments that only Triton appended, before 3.0."""
    return _OLD_TRITON.search(name) is not None


def may_be_user_triton(name: str) -> bool:
    """Whether the name can be that of a Python function: no template, no mangling, no known library."""
    if _PLAIN.match(name) is None or is_inductor_triton(name):
        return False
    return has_triton_arguments(name) or _LIBRARY.match(name) is None


def is_nameless(name: str) -> bool:
    """Whether an Inductor kernel's name says nothing about what it computes."""
    return _NAMELESS.match(name) is not None


def kind_of(name: str) -> Kind:
    """What a kernel computes, from its name alone; ``other`` where the name does not tell.

    Communication is told by `kinetoscope.link.names.Mark.COLLECTIVE` and the file's metadata, not here.
    """
    if is_inductor_triton(name):
        return _inductor_kind(name)
    if is_inductor_cpp(name):
        return _fused_kind(name, default="pointwise")
    head, arguments = _split(name)
    for kind, pattern in _BY_HEAD:
        if pattern.search(head):
            if kind == "pointwise" and _COPY_FUNCTOR.search(arguments):
                return "copy"
            if kind == "optimizer" and _COPIES.search(arguments):
                return "copy"
            return kind
    for kind, pattern in _BY_ARGUMENTS:
        if pattern.search(arguments):
            return kind
    return "other"


def _split(name: str) -> tuple[str, str]:
    """A C++ name without its return type, cut where its template or function arguments begin.

    A wrapper that runs whatever its template argument says (CUTLASS, ck_tile, rocPRIM) tells nothing
    by its own name: then the head is empty and everything is argument.
    """
    if name.startswith("void "):
        name = name[5:]
    elif name.startswith("std::enable_if<"):
        name = name.partition("::type ")[2] or name
    name = name.replace("(anonymous namespace)::", "")
    cut = min((at for at in (name.find("<"), name.find("(")) if at > 0), default=len(name))
    head = name[:cut]
    return ("", name) if _WRAPPER.search(head) else (head, name[cut:])


def _inductor_kind(name: str) -> Kind:
    loop, fused = name[7:10], name[10:]
    if loop == "tem" or re.match(_TEMPLATES, name[7:]):
        if "attention" in name or "flex_decoding" in name:
            return "attention"
        return "convolution" if "convolution" in name and "mm" not in name else "gemm"
    if loop in ("poi", "for"):
        if "addcdiv" in fused:  # only optimizers are written with it
            return "optimizer"
        return "copy" if _MOVES_ONLY.match(fused) else "pointwise"
    if loop in ("red", "per", "mix", "spl"):
        return _fused_kind(fused, default="reduction")
    return "other"


def _fused_kind(fused: str, default: Kind) -> Kind:
    """Kind of a generated kernel from the operators named in it."""
    if _FUSED_NORM.search(fused):
        return "normalization"
    if default == "pointwise":
        if "Gemm" in fused or _FUSED_GEMM.search(fused):
            return "gemm"
        if _FUSED_REDUCTION.search(fused):
            return "reduction"
        if _MOVES_ONLY.search(fused):
            return "copy"
    return default


_WRAPPER = re.compile(r"(?:^|::)(?:Kernel2?|trampoline_kernel|device_kernel|kentry)$")
_FUSED_NORM = re.compile(r"(?:layer|batch|group|instance|rms)_?norm|softmax")
_FUSED_GEMM = re.compile(r"_(?:add|badd|b)?b?mm(?:_|$)")
_FUSED_REDUCTION = re.compile(
    r"_(?:sum|mean|amax|amin|argmax|argmin|max|min|prod|var|std|var_mean|any|all|logsumexp|cumsum|nll_loss_forward"
    r"|linalg_vector_norm)(?:_|$)"
)
# generated kernels that only move data: every operator named in them is one of these
_MOVES_ONLY = re.compile(
    r"_fused(?:_(?:_to_copy|copy_?|clone|cat|contiguous|constant_pad_nd|permute|transpose|view|_unsafe_view|slice"
    r"|expand|unsqueeze|squeeze|select|split|stack|t|as_strided|reshape))+(?:_\d+)?$"
)
_COPY_FUNCTOR = re.compile(r"copy_kernel_cuda|\w+_copy_kernel|CopyFunctor")
_COPIES = re.compile(r"\bCopy(?:Functor)?<")


def _patterns(*rows: tuple[Kind, str]) -> Sequence[tuple[Kind, re.Pattern[str]]]:
    return [(kind, re.compile(pattern)) for kind, pattern in rows]


# Asked in this order: a name is often a compound (a convolution runs as an implicit gemm, a gemm ends in
# a reduction over its splits, a cache write says "flash"), and the narrow meaning comes first. A layout
# change or a fill that only a convolution library makes is part of the convolution.
_BY_HEAD = _patterns(
    ("copy", r"reshape_and_cache|store_kv|kv_?cache_(?:copy|store)|kv_indices|page_indices"),
    (
        "attention",
        r"(?i:flash|fmha|sdpa|attention|paged_attn|flex_attn)|\bmha_|\battn_(?:fwd|bwd)|_attn_|compute_dot_do_o"
        r"|convert_dq_to|bwd_preprocess|^_(?:fwd|bwd)_kernel|Fmha",
    ),
    (
        "normalization",
        r"(?i:layer_?norm|batch_?norm|group_?norm|rms_?norm|instance_?norm|softmax)|\bbn_(?:fw|bw)|bnorm"
        r"|RowwiseMoments|GammaBeta|ComputeInternalGradients|Compute\w*FusedParams",
    ),
    (
        "convolution",
        r"(?i:conv(?!ert)|winograd|im2d?2?col|col2im|implicit_?gemm|fprop|dgrad|wgrad|scudnn)|Im2d2Col"
        r"|igemm_(?:fwd|bwd|wrw)|bwd_weight|cask_(?:cudnn|plugin)|cutlass_\w*cudnn"
        r"|cudnn::(?:cnn|ops|detail|engines_precompiled)::|[nN](?:chw|hwc)To|oldedNhwc|nhwcAdd|fft[123]d_|SubTensorOp"
        r"|batched_transpose_\d|transpose_(?:CNHW|NCHW)|precompute_indices|flip_filter",
    ),
    (
        "gemm",
        r"(?i:(?<!fb)gemm|gemv|nvjet|matmul|cublas)|Cijk_|\bbmm_|split[kK]_?[rR]educe|wvSplitK|dot_kernel|reduce_1Block"
        r"|epilogue::impl::globalKernel|_xmma_|rocblas|\bger_kernel|\btrsm|\bsyrk",
    ),
    ("optimizer", r"multi_tensor_apply|(?i:fused_?adam|adam_kernel|fused_?sgd|fused_?lamb)"),
    ("sort", r"(?i:radix_?sort|merge_?sort|bitonic|segmented_?sort|top_?k)|SortPairs|\bsort"),
    (
        "reduction",
        r"embedding_backward|indexing_backward|EmbeddingBag|Device(?:Reduce|Select|Compact|Partition)"
        r"|(?i:scan|reduce_?kernel|histogram)|_reduce|reduce_|reduction_|_pool(?!ed)|nll_loss|_sum|sum_|mean_",
    ),
    ("copy", r"CatArray|_copy_|copy_kernel|(?i:memcpy|memset)|transpose|permute_|pad_kernel|convertTensor"),
    (
        "pointwise",
        r"elementwise|(?i:dropout)|distribution_|indexSelect|index_|indices|gather|scatter|embedding|act_and_mul"
        r"|activation|rotary|quant|clamp|arange|fill|upsample|triu_tril|gelu|silu|relu|masked|where"
        r"|(?:^|_)(?:add|mul|scale|cos|sin|exp)(?:_|$)",
    ),
)
_BY_ARGUMENTS = _patterns(
    ("attention", r"(?i:flash|fmha|attention)"),
    ("convolution", r"(?i:conv(?!ert)|fprop|dgrad|wgrad)|cudnn"),
    ("normalization", r"(?i:rms_?norm|layer_?norm|softmax)"),
    ("gemm", r"(?i:(?<!fb)gemm|matmul)"),
    ("sort", r"(?i:radix_?sort|merge_?sort|block_sort)"),
    ("reduction", r"(?i:reduce|scan|partition)"),
)

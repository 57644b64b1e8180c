"""Kernel -> generated code -> source lines, and never a stale line shown as true."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kinetoscope.ingest.compile_log import CompileLog, read_compile_log
from kinetoscope.link.generated_code import consumer_of, generated_kernels, node_sources
from kinetoscope.link.provenance import Provenance, plain_kernel_name

LOGS = Path(__file__).parent / "traces" / "logs"
SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "traces"
# the operation each C++ kernel of source_cold computes, and its line in that program
FORWARD = {
    "cpp_fused_sin_0": {11},
    "cpp_fused_cos_1": {12},
    "cpp_fused_relu_2": {13, 14, 15},
    "cpp_fused_tanh_3": {5},
    "cpp_fused_sigmoid_sum_4": {17},
}
BACKWARD = {
    "cpp_fused_expand_sigmoid_sigmoid_backward_0": {17},
    "cpp_fused_tanh_backward_1": {5},
    "cpp_fused_threshold_backward_2": {13, 14, 15},
    "cpp_fused_mul_neg_sin_3": {12},
}


def read(name: str) -> CompileLog:
    return read_compile_log(LOGS / f"{name}.log.gz")


@pytest.mark.parametrize(("name", "moved"), [("source_cold", 0), ("source_moved", 2)])
def test_lines_are_this_runs_also_when_the_caches_hold_older_ones(name: str, moved: int) -> None:
    log = read(name)
    assert {g.state for c in log.compilations for g in c.graphs} == {"hit" if moved else "miss"}
    lines = Provenance(log)
    for kernel, expected in {**FORWARD, **BACKWARD}.items():
        found = lines.kernel("graph_7_" + kernel, compile_id="0/0")
        assert found is not None
        assert found.source_state == "exact", kernel
        assert {f.line for f in found.sources} == {line + moved for line in expected}, kernel
        assert {f.file for f in found.sources} == {"/home/user/prog.py"}
        assert found.backward == (kernel in BACKWARD)
        assert found.code is not None
        assert found.code.startswith(f"{kernel} = async_compile.cpp")


def test_calls_are_in_order_with_their_own_lines() -> None:
    log = read("source_moved")
    forward = Provenance(log).calls(log.compilations[0].graphs[0])
    assert [c.index for c in forward] == list(range(1, 14))
    relu = [c for c in forward if c.name == "cpp_fused_relu_2"]
    assert [[f.line for f in c.sources] for c in relu] == [[15], [16], [17]]


def test_lines_that_this_run_cannot_confirm_are_cached() -> None:
    log = read("source_moved")
    blind = tuple(replace(c, dynamo_graph=None, aot_graphs=()) for c in log.compilations)
    found = Provenance(replace(log, compilations=blind)).kernel("cpp_fused_sin_0")
    assert found is not None
    assert found.source_state == "cached"
    assert [f.line for f in found.sources] == [11]  # of the run that filled the cache


def test_one_cached_line_that_became_two_is_not_guessed() -> None:
    log = read("source_moved")
    (item,) = log.compilations
    graphs = []
    for number, graph in enumerate(item.graphs, 1):
        assert graph.post_grad is not None
        # as if the run that filled the caches had had cos (12) and the first relu (13) on one line
        text = graph.post_grad.text().replace("prog.py:13 in", "prog.py:12 in")
        graphs.append(replace(graph, post_grad=replace(graph.post_grad, kept=text, offset=-number)))
    found = Provenance(replace(log, compilations=(replace(item, graphs=tuple(graphs)),))).kernel(
        "cpp_fused_mul_neg_sin_3"
    )
    assert found is not None
    assert ([f.line for f in found.sources], found.source_state) == ([12], "cached")


def test_a_cached_graph_of_another_program_gets_this_programs_lines() -> None:
    lines = Provenance(
        read("train")
    )  # its caches were filled by another program, there line 227 called line 211
    for kernel in ("cpp_fused_gelu_0", "cpp_fused_gelu_gelu_backward_0"):
        found = lines.kernel(kernel)
        assert found is not None
        assert ([f.line for f in found.sources], found.source_state) == ([211], "exact")


def test_regions_that_share_a_key_have_their_own_lines() -> None:
    log = read("seed_breaks")
    lines = Provenance(log)
    names = ["triton_poi_fused_addmm_relu_0", "triton_red_fused_sum_threshold_backward_0"]
    for compile_id, line in (("0/0", 68), ("1/0", 70), ("2/0", 72), ("3/0", 74)):
        for name in names:
            found = lines.kernel(name, compile_id=compile_id)
            assert found is not None
            assert ([f.line for f in found.sources], found.source_state) == ([line], "exact"), (
                compile_id,
                name,
            )
    key = next(g.cache_key for g in log.with_id("1/0")[0].graphs if not g.backward)
    shared = lines.kernel(names[0], cache_key=key)
    assert shared is not None
    assert shared.compile_ids == ("1/0", "2/0", "3/0")
    assert {f.line for f in shared.sources} == {70, 72, 74}
    decided = lines.kernel(names[0], cache_key=key, compile_id="2/0")
    assert decided is not None
    assert [f.line for f in decided.sources] == [72]


def test_code_of_a_triton_kernel() -> None:
    found = Provenance(read("seed_breaks")).kernel("triton_poi_fused_addmm_relu_0", compile_id="0/0")
    assert found is not None
    assert found.code is not None
    assert "# Graph fragment:" in found.code
    assert "def triton_poi_fused_addmm_relu_0(" in found.code
    assert found.code.rstrip().endswith("''', device_str='cuda')")
    assert found.calls == 1
    assert set(found.nodes) == {"relu", "add_tensor_1"}


def test_what_the_log_has_not() -> None:
    lines = Provenance(read("seed_breaks"))
    assert lines.kernel("ampere_sgemm_32x128_tn") is None
    assert lines.kernel("triton_poi_fused_addmm_relu_0", compile_id="9/9") is None
    assert Provenance(CompileLog()).kernel("x") is None
    bare = Provenance(read("cpu_inductor")).kernel("cpp_fused_gelu_view_2")
    assert bare is not None
    assert (bare.sources, bare.source_state, bare.consumer) == ((), None, "addmm")


def test_without_source_lines_stay_and_code_goes() -> None:
    log = read_compile_log(LOGS / "source_cold.log.gz", keep_source=False)
    found = Provenance(log).kernel("cpp_fused_sin_0")
    assert found is not None
    assert (found.code, [f.line for f in found.sources], found.source_state) == (None, [11], "exact")
    assert all(f.code is None for f in found.sources)
    later = Provenance(log).kernel("cpp_fused_tanh_backward_1")
    assert later is not None
    assert later.source_state == "cached"


def test_names() -> None:
    assert plain_kernel_name("graph_12_cpp_fused_sin_0") == "cpp_fused_sin_0"
    assert plain_kernel_name("graph_pool_kernel") == "graph_pool_kernel"


CODE = """# AOT ID: ['0_forward']
async_compile = AsyncCompile()


# Topologically Sorted Source Nodes: [], Original ATen: []
triton_poi_fused_0 = async_compile.triton('triton_poi_fused_0', \'\'\'
def triton_poi_fused_0(in_ptr0):
    pass
\'\'\', device_str='cuda')


scale_0 = async_compile.triton('scale', \'\'\'
def scale(x):
    pass
\'\'\', device_str='cuda')

class Runner:
    def call(self, args):
        triton_poi_fused_0.run(primals_1, buf0, 192, 49, stream=stream0)
        del primals_1
        triton_poi_fused_0.run(primals_2, buf1, 192, 49, stream=stream0)
        buf2 = extern_kernels.convolution(primals_3, buf0, stride=(2, 2))
        scale_0.run(buf1, buf2, 4, stream=stream0)
"""


def test_generated_code_is_cut_into_kernels() -> None:
    found = generated_kernels(CODE)
    assert [(k.name, k.function, k.calls, k.line) for k in found.values()] == [
        ("triton_poi_fused_0", "triton_poi_fused_0", 2, 5),
        ("scale_0", "scale", 1, 12),
    ]
    assert "scale" not in found["triton_poi_fused_0"].text
    assert consumer_of(CODE, "triton_poi_fused_0") == "convolution"
    assert consumer_of(CODE, "scale_0") is None
    assert generated_kernels("") == {}


def test_a_view_of_a_result_is_not_what_uses_it() -> None:
    code = """
def call(args):
    triton_poi_fused_0.run(arg0_1, buf0, 64, stream=stream0)
    buf1 = reinterpret_tensor(buf0, (8, 8), (8, 1), 0); del buf0  # reuse
    buf2 = buf1; del buf1  # reuse
    assert_size_stride(buf2, (8, 8), (8, 1))
    buf10 = empty_strided_cuda((8, 8), (8, 1), torch.float32)
    extern_kernels.mm(reinterpret_tensor(buf2, (8, 8), (1, 8), 0), arg1_1, out=buf10)
    return (buf10, )
"""
    assert consumer_of(code, "triton_poi_fused_0") == "mm"


def test_graph_comments() -> None:
    graph = """class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[2]"):
        before = x
         # File: /a b/c.py:7 in f, code: y = x.sin()
        sin: "f32[2][1]cpu" = torch.sin(x)
        cos = torch.cos(sin)
        # No stacktrace found for following nodes
        made: "f32[]" = torch.full([], 0)
        # File: C:\\c.py:9 in g, code: z
        split = torch.split(cos);  cos = None
        return (split,)
"""
    found = node_sources(graph)
    assert found["before"] is None
    assert found["made"] is None
    for node, place in {
        "sin": ("/a b/c.py", 7, "f"),
        "cos": ("/a b/c.py", 7, "f"),
        "split": ("C:\\c.py", 9, "g"),
    }.items():
        frame = found[node]
        assert frame is not None
        assert (frame.file, frame.line, frame.function) == place
    twice = node_sources(graph + graph.replace("c.py:7", "c.py:8"))
    assert twice["sin"] is None
    assert twice["split"] is not None


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared captures are not beside the checkout")
@pytest.mark.parametrize(("name", "sourceless"), [("seed_resnet", 9), ("gpt_train", 0), ("gpt_decode", 0)])
def test_every_kernel_has_its_code_and_exact_lines_or_none(name: str, sourceless: int) -> None:
    log = read_compile_log(SHARED / "gpu" / name / "compile_log")
    lines = Provenance(log)
    without = []
    total = 0
    for item in log.compilations:
        for graph in item.graphs:
            for kernel in lines.kernels(graph):
                total += 1
                found = lines.kernel(kernel, compile_id=item.id, cache_key=graph.cache_key)
                assert found is not None
                assert found.code
                assert found.file_path
                if found.sources:
                    assert found.source_state == "exact"
                else:
                    assert found.source_state is None
                    without.append((kernel, found.consumer))
    assert total >= 20
    assert len(without) == sourceless
    assert {consumer for _, consumer in without} <= {"convolution"}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared captures are not beside the checkout")
def test_a_kernel_that_the_user_wrote_is_found_by_its_own_name() -> None:
    found = Provenance(read_compile_log(SHARED / "gpu" / "user_triton" / "compile_log")).kernel(
        "scale_add_kernel"
    )
    assert found is not None
    assert found.code is not None
    assert "def scale_add_kernel(" in found.code
    assert {f.line for f in found.sources} == {
        120,
        122,
    }  # its launch, and sin that is computed into its input
    assert found.source_state == "exact"

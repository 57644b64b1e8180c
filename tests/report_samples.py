"""Reports made by hand, for the tests of what is built on a report.

`seed_breaks` has the numbers of a real capture: the guide's graph-break program on an H200.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kinetoscope.schema import (
    Autograd,
    AutogradPair,
    BreakSite,
    Compiled,
    CompileTime,
    CudaGraphs,
    DeviceInfo,
    DeviceTime,
    Evidence,
    Finding,
    Gap,
    GraphBreaks,
    Idle,
    Kernels,
    KindShare,
    Launches,
    LinkedBy,
    OriginShare,
    Recompiles,
    Region,
    Report,
    Step,
    Steps,
    TopKernel,
    TraceSummary,
    Versions,
    WarningNote,
)

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
_GEMM = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_{}_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4"
    "_execute_kernel__5x_cublas"
)


def empty(**changes: object) -> Report:
    """A trace in which nothing was found: a handful of events, no device, no steps."""
    report = Report(
        trace=TraceSummary(path="empty.json", events=4, complete_events=2, span_ns=0, complete=True),
        steps=Steps(),
        compiled=Compiled(verdict="unknown"),
        graph_breaks=GraphBreaks(bound="estimate"),
        recompiles=Recompiles(),
        compile_time=CompileTime(),
        autograd=Autograd(pairs=0, unpaired_forward=0, unpaired_backward=0),
        launches=Launches(
            launch_calls=0, graph_launches=0, device_events=0, linked=0, unlinked=0, launched_before_window=0
        ),
        cuda_graphs=CudaGraphs(),
    )
    return msgspec.structs.replace(report, **changes)


def seed_breaks(**changes: object) -> Report:
    """Three training steps of a model that breaks its graph three times a step."""
    report = Report(
        trace=TraceSummary(
            path="seed_breaks/trace.json.gz",
            events=1210,
            complete_events=769,
            span_ns=16_204_111,
            device_kind="cuda",
            devices=[DeviceInfo(index=0, name="NVIDIA H200")],
            versions=Versions(cuda_runtime="13.0", cuda_driver="13.0", cupti="13.0.1"),
            complete=True,
        ),
        steps=Steps(
            source="region",
            count=3,
            mean_ns=3_391_871,
            median_ns=3_391_871,
            list=[
                Step(name="0/0", start_ns=102_554, dur_ns=9_697_244, device_busy_ns=147_233),
                Step(name="0/0", start_ns=9_799_798, dur_ns=3_540_223, device_busy_ns=145_610),
                Step(name="0/0", start_ns=13_340_021, dur_ns=3_243_519, device_busy_ns=145_779),
            ],
        ),
        compiled=Compiled(
            verdict="yes",
            evidence=["4 compiled regions ran", "48 of 174 kernels are Inductor's Triton kernels"],
            device_share=0.869,
            cpu_share=0.642,
        ),
        regions=[
            _region("0/0", 6_378_900, 3_669_300, 34_526, None),
            _region("1/0", 2_709_600, 1_002_089, 31_744, "0/0"),
            _region("2/0", 1_707_511, 966_153, 32_129, "1/0"),
            _region("3/0", 741_358, 741_358, 31_997, "2/0"),
        ],
        graph_breaks=GraphBreaks(
            count=3,
            bound="estimate",
            source="trace",
            sites=[
                BreakSite(kind="break", hits=3, regions=["0/0", "1/0"]),
                BreakSite(kind="break", hits=3, regions=["1/0", "2/0"]),
                BreakSite(kind="break", hits=3, regions=["2/0", "3/0"]),
            ],
        ),
        recompiles=Recompiles(count=0, source="trace"),
        compile_time=CompileTime(total_ns=0, in_window_ns=0, source="trace"),
        autograd=Autograd(
            pairs=12,
            unpaired_forward=0,
            unpaired_backward=0,
            linked_by=LinkedBy(fwdbwd=12, sequence_number=12),
            list=[
                AutogradPair(
                    sequence_number=number,
                    forward_ns=400_000 - 17_250 * number,
                    backward_ns=310_500 + 1_250 * number,
                    backward_device_ns=62_410,
                    region=f"{number % 4}/0",
                )
                for number in range(12)
            ],
        ),
        device_time=[
            DeviceTime(
                device="0",
                events=174,
                span_ns=13_803_882,
                busy_ns=438_622,
                idle_ns=13_365_260,
                gaps=173,
                compute_ns=438_622,
                communication_ns=0,
                memcpy_ns=0,
                exposed_communication_ns=0,
                exposed_memcpy_ns=0,
            )
        ],
        launches=Launches(
            launch_calls=174,
            graph_launches=0,
            device_events=174,
            linked=174,
            unlinked=0,
            launched_before_window=0,
            launch_ns=1_301_334,
            median_launch_ns=5_310,
            median_queue_ns=9_044,
            sync_ns=12_801,
            lookup_ns=411_302,
        ),
        kernels=Kernels(
            count=174,
            total_ns=438_622,
            graph_replay_ns=0,
            by_origin=[
                OriginShare(origin="compiled_extern", count=69, total_ns=310_880, share=0.7088),
                OriginShare(origin="inductor_triton", count=48, total_ns=66_784, share=0.1523),
                OriginShare(origin="eager", count=54, total_ns=57_278, share=0.1306),
                OriginShare(origin="compiled_fallback", count=3, total_ns=3_680, share=0.0084),
            ],
            by_kind=[
                KindShare(kind="gemm", count=69, total_ns=310_880, share=0.7088),
                KindShare(kind="pointwise", count=75, total_ns=70_908, share=0.1617),
                KindShare(kind="reduction", count=27, total_ns=53_154, share=0.1212),
                KindShare(kind="copy", count=3, total_ns=3_680, share=0.0084),
            ],
            top=[
                _kernel(_GEMM.format("nt"), "compiled_extern", "gemm", 24, 106_464, "aten::mm"),
                _kernel(_GEMM.format("tn"), "compiled_extern", "gemm", 24, 105_982, "aten::mm"),
                _kernel(_GEMM.format("nn"), "compiled_extern", "gemm", 21, 98_434, "aten::mm"),
                _kernel(ADD, "eager", "pointwise", 48, 44_349, "aten::add_"),
                _triton("red_fused_sum_threshold_backward_0", "reduction", 21_697),
                _triton("red_fused_sum_threshold_backward_1", "reduction", 20_673),
                _triton("poi_fused_addmm_relu_0", "pointwise", 12_257),
                _triton("poi_fused_addmm_relu_threshold_backward_1", "pointwise", 12_157),
            ],
        ),
        idle=Idle(
            total_ns=13_365_260,
            share=0.9682,
            gaps=173,
            longest=[Gap(start_ns=3_001_220, dur_ns=6_210_334, device="0")],
        ),
        cuda_graphs=CudaGraphs(used=False, replays=0),
        findings=[
            Finding(
                code="graph-break",
                title="3 graph breaks split the forward into 4 compiled pieces",
                severity="high",
                detail="Each piece checks its guards and launches its kernels on its own: 4 lookups a step.",
                fix="Capture with TORCH_TRACE to learn the place and the reason of each, then remove them.",
                doc="graph-break",
                share=0.26,
                cost_ns_per_step=882_400,
                evidence=[
                    Evidence(
                        track="717/717", start_ns=2_677_377, dur_ns=957_314, name="Torch-Compiled Region: 1/0"
                    ),
                    Evidence(
                        track="717/717", start_ns=3_110_561, dur_ns=523_192, name="Torch-Compiled Region: 2/0"
                    ),
                ],
            ),
            Finding(
                code="eager-kernels",
                title="18 kernels a step run outside compiled code",
                severity="medium",
                detail="13 % of the device's time: 16 aten::add_ of AccumulateGrad, aten::sum, ones_like.",
                fix="Keep the gradients between steps as they are (zero_grad(set_to_none=True)).",
                doc="eager-kernels",
                share=0.1306,
                cost_ns_per_step=19_093,
            ),
            Finding(
                code="fallback-op",
                title="aten::copy_ is not compiled",
                severity="info",
                detail="One copy a step in the backward's wrapper, 1.2 us.",
            ),
        ],
    )
    return msgspec.structs.replace(report, **changes)


def two_ranks() -> Report:
    """Two ranks of one job in one file, the second slower."""
    ranks = [
        seed_breaks(trace=_trace(rank=rank, world_size=2, path=f"job.zip/rank{rank}.json"), findings=findings)
        for rank, findings in ((0, seed_breaks().findings), (1, []))
    ]
    return msgspec.structs.replace(ranks[0], ranks=ranks)


def with_name(name: str) -> Report:
    """seed_breaks with ``name`` wherever a report holds text that comes from outside."""
    report = seed_breaks()
    kernels = report.kernels
    assert kernels is not None
    replace = msgspec.structs.replace
    return replace(
        report,
        trace=_trace(
            path=name,
            devices=[DeviceInfo(index=0, name=name)],
            versions=Versions(torch=name),
            warnings=[WarningNote(code="repaired", message=f"a name was mended: {name}", count=2)] * 5,
        ),
        steps=replace(report.steps, list=[replace(step, name=name) for step in report.steps.list]),
        compiled=replace(report.compiled, verdict="partly", evidence=[name]),
        regions=[replace(region, id=name + region.id, function=name, file=name) for region in report.regions],
        graph_breaks=replace(
            report.graph_breaks,
            sites=[
                replace(site, file=name, line=3, function=name, reason=name, gb_id=name, regions=[name])
                for site in report.graph_breaks.sites
            ],
        ),
        autograd=replace(report.autograd, list=[replace(pair, region=name) for pair in report.autograd.list]),
        device_time=[replace(device, device=name) for device in report.device_time],
        kernels=replace(kernels, top=[replace(kernel, name=name, op=name) for kernel in kernels.top]),
        idle=Idle(
            total_ns=5,
            share=0.5,
            gaps=1,
            longest=[Gap(start_ns=1, dur_ns=2, device=name, cause=name, detail=name)],
        ),
        findings=[
            replace(
                finding,
                title=name,
                detail=name,
                fix=name,
                doc=name,
                evidence=[Evidence(track=name, start_ns=1, dur_ns=1, name=name)],
            )
            for finding in report.findings
        ],
    )


def _trace(**changes: object) -> TraceSummary:
    return msgspec.structs.replace(seed_breaks().trace, **changes)


def _region(id: str, total_ns: int, self_ns: int, device_ns: int, parent: str | None) -> Region:
    parents: Mapping[str, int] = {parent: 3} if parent else {}
    return Region(
        id=id,
        calls=3,
        nested_calls=sum(parents.values()),
        total_ns=total_ns,
        self_ns=self_ns,
        device_ns=device_ns,
        parents=dict(parents),
        compiled_functions_per_call=1.0,
    )


def _kernel(name: str, origin: str, kind: str, count: int, total_ns: int, op: str | None = None) -> TopKernel:
    return msgspec.convert(
        {
            "name": name,
            "origin": origin,
            "kind": kind,
            "count": count,
            "total_ns": total_ns,
            "mean_ns": total_ns // count,
            "share": total_ns / 438_622,
            "op": op,
        },
        TopKernel,
    )


def _triton(name: str, kind: str, total_ns: int) -> TopKernel:
    return _kernel(f"triton_{name}", "inductor_triton", kind, 12, total_ns)

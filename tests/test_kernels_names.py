"""What kernel and operator names tell; the names are those of real traces."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kinetoscope
from kinetoscope.analyses import kernel_names, operator_names
from kinetoscope.analyses.origins import kinds_by_name
from kinetoscope.link import link
from kinetoscope.trace import Category
from small_trace import SHARED

KINDS = {
    "gemm": [
        "nvjet_sm90_hsh_8x64_64x16_4x1_v_bz_bias_TNN",
        "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
        "volta_sgemm_32x32_sliced1x4_tn",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_execute_kernel__5x_cublas",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(cutlass_80_simt_sgemm::Params)",
        "void gemmSN_TN_kernel<float, 128, 16, cublasGemvTensorStridedBatched<float> >(int)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, float>(cublasLt::cublasSplitKParams<float>)",
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, 7>(int)",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT16x32x512_MI16x16x1_SN_LDSB1",
        "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_sm100f",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1",
        "triton_tem_fused_mm_3",
        "triton_tem_fused_addmm_relu_0",
        "triton_mm_17",
    ],
    "convolution": [
        "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_execute_kernel__5x_cudnn",
        "_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock22Implicit",
        "void cudnn::ops::nchwToNhwcKernel<float, float, float>(cudnn::ops::nchw2nhwc_params_t<float>)",
        "void cutlass__5x_cudnn::Kernel<cutlass__5x_cudnn::reduction::kernel::ReduceSplitK<int> >(int)",
        "cudnn_infer_volta_scudnn_128x64_relu_xregs_large_nn_v1",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(int)",
        "void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*, int)",
        "igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1_wr2x2",
        "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28Gridwise",
        "Im2d2Col_v2",
        "batched_transpose_16x64_pack_1x4_ediv_1x2_half",
        "triton_tem_fused_convolution_1",
    ],
    "attention": [
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128> >(pytorch_flash::Params)",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<int>::Params)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1_kernel0_0",
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
        "attn_fwd",
        "kernel_unified_attention_2d",
        "triton_tem_fused_flex_attention_0",
    ],
    "normalization": [
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)",
        "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(cudnn::bn_fw_tr_1C11_args<float>)",
        "void at::native::batch_norm_collect_statistics_kernel<at::native::Var, float, int>(int)",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 7, true, false>(float*)",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float>(float*)",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELb0ELb1ELi1EEEvPT0_",
        "triton_per_fused_add_native_layer_norm_view_5",
        "triton_red_fused__softmax_2",
    ],
    "reduction": [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, sum_functor<float> > >(int)",
        "void at_cuda_detail::cub::DeviceScanKernel<at_cuda_detail::cub::AgentScanPolicy<128> >(int)",
        "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int)",
        "triton_red_fused_sum_view_0",
    ],
    "pointwise": [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >(int)",
        "void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::Half, long, unsigned int>(int)",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        "triton_poi_fused_gelu_view_2",
    ],
    "copy": [
        "void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda()::{lambda()}>(int)",
        "void at::native::vectorized_elementwise_kernel<4, bfloat16_copy_kernel_cuda()::{lambda}>(int)",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<OpaqueType<4u> >(int)",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(__nv_bfloat16 const*)",
        "void at::native::multi_tensor_apply_kernel<UnaryOpFunctor<long>, Copy<long, long> >(int)",
        "triton_poi_fused__to_copy_3",
    ],
    "sort": [
        "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<int>(int)",
        "void at::native::radixSortKVInPlace<-2, -1, 128, 32, double, long, unsigned int>(int)",
        "_topk_forward",
    ],
    "optimizer": [
        "void at::native::multi_tensor_apply_kernel<Metadata<4>, FusedAdamMathFunctor<float> >(int)",
        "triton_poi_fused_add_addcdiv_copy__div_lerp_mul_neg_pow_reciprocal_rsub_sqrt_3",
    ],
    "other": ["triton__0d1d2d3de", "at::cuda::(anonymous namespace)::spin_kernel(long)"],
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in KINDS.items() for name in names])
def test_kind(kind: str, name: str) -> None:
    assert kernel_names.kind_of(name) == kind


@pytest.mark.parametrize(
    "name",
    [
        "triton_poi_fused_add_0",
        "triton_per_fused__native_batch_norm_legit_functional_copy__12",
        "triton_tem_fused_mm_3",
        "triton_for_fused_0",
        "triton_mm_17",
        "triton_",
        "triton__0d1d2d3de4de",
        "triton__0d1d2d3d4d5de6",
        "triton_red_fused_add_7_0d1d2d",
    ],
)
def test_inductors_names(name: str) -> None:
    assert kernel_names.is_inductor_triton(name)
    assert not kernel_names.may_be_user_triton(name)


@pytest.mark.parametrize(
    "name",
    ["scale_add_kernel", "_fwd_kernel_aligned_0d1d2d3d45d6de7de8c", "_topk_forward", "triton_mul_kernel"],
)
def test_names_of_users_kernels(name: str) -> None:
    assert not kernel_names.is_inductor_triton(name)
    assert kernel_names.may_be_user_triton(name)


@pytest.mark.parametrize("kind", ["gemm", "convolution", "attention", "normalization"])
def test_library_functions_are_not_a_users(kind: str) -> None:
    in_triton = {"_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", "kernel_unified_attention_2d"}
    for name in KINDS[kind]:
        assert kernel_names.may_be_user_triton(name) == (name in in_triton), name


def test_only_old_triton_names_describe_arguments() -> None:
    assert kernel_names.has_triton_arguments("_fwd_kernel_0d1d2d3d45d6de7de8c")
    assert not kernel_names.has_triton_arguments("kernel_unified_attention_2d")
    assert not kernel_names.has_triton_arguments("scale_add_kernel_0")


def test_a_name_of_digits_is_read_in_no_time() -> None:
    assert not kernel_names.has_triton_arguments("kernel_0" + "1d1" * 5000 + "!")
    assert not kernel_names.is_inductor_triton("triton_0" + "12" * 5000 + "!")


@pytest.mark.parametrize("name", ["triton_", "triton__0d1d2d", "triton_poi_fused_0", "triton_per_3"])
def test_nameless(name: str) -> None:
    assert kernel_names.is_nameless(name)


@pytest.mark.parametrize("name", ["triton_poi_fused_add_0", "triton_tem_fused_mm_0", "scale_add_kernel"])
def test_not_nameless(name: str) -> None:
    assert not kernel_names.is_nameless(name)


@pytest.mark.parametrize(
    ("name", "is_cpp", "kind"),
    [
        ("graph_0_cpp_fused_embedding_native_layer_norm_0", True, "normalization"),
        ("graph_12_cpp_fused_gelu_view_2", True, "pointwise"),
        ("cpp_fused_add_relu_0", True, "pointwise"),
        ("graph_1_cpp_fused_sum_view_4", True, "reduction"),
        ("triton_poi_fused_add_0", False, "pointwise"),
    ],
)
def test_cpp_kernels(name: str, is_cpp: bool, kind: str) -> None:
    assert kernel_names.is_inductor_cpp(name) == is_cpp
    assert kernel_names.kind_of(name) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::addmm", "gemm"),
        ("aten::bmm", "gemm"),
        ("mkl::_mkl_linear", "gemm"),
        ("mkldnn::_linear_pointwise", "gemm"),
        ("aten::convolution_backward", "convolution"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
        ("aten::native_layer_norm_backward", "normalization"),
        ("aten::_softmax", "normalization"),
        ("aten::linalg_vector_norm", "reduction"),
        ("aten::sum", "reduction"),
        ("aten::copy_", "copy"),
        ("aten::_foreach_copy_", "copy"),
        ("aten::_fused_adamw_", "optimizer"),
        ("aten::topk", "sort"),
        ("_c10d_functional::all_reduce", "communication"),
        ("aten::mul", "pointwise"),
        ("mylib::something", "other"),
    ],
)
def test_operator_kind(name: str, kind: str) -> None:
    assert operator_names.operator_kind(name) == kind


def test_operators_beyond_views() -> None:
    assert operator_names.is_aten_beyond_views("aten::cos")
    for name in ("view", "as_strided", "item", "_local_scalar_dense", "is_nonzero"):
        assert not operator_names.is_aten_beyond_views(f"aten::{name}")
    assert not operator_names.is_aten_beyond_views("CompiledFunction")


# Every name of all shared traces that no rule knows, so that a new kind of kernel is noticed here.
UNKNOWN = re.compile(
    r"triton__0d1d"  # says nothing
    r"|spin_kernel|moe::dev::|_combined_routing_compute|bucketize_sparse_features|nms_kernel_impl"
    r"|resolve_future_token_ids|trampoline_kernel.*transform"
)


def test_few_names_stay_unknown() -> None:
    paths = sorted((SHARED / "traces").glob("*/*/*.json.gz"))
    if not paths:
        pytest.skip("needs the shared traces, which are not here")
    for path in paths:
        links = link(kinetoscope.load(str(path)))
        c = links.trace.columns
        names = np.unique(c.name[c.category == Category.KERNEL])
        other = names[kinds_by_name(links)[names] == kernel_names.KINDS.index("other")]
        unknown = [links.trace.names[number] for number in other.tolist()]
        assert [name for name in unknown if not UNKNOWN.search(name)] == []

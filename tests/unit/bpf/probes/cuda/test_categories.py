"""What kernels compute, by their names."""

import pytest

from scope_bpf.probes.cuda.categories import category_of


@pytest.mark.parametrize(
    ("kernel", "category"),
    [
        ("flash_attn_ext_f16<64, 64, 8>(char const*)", "attention"),
        ("soft_max_f32<true, 1024, 1024>(float const*)", "attention"),
        ("mul_mat_q<(ggml_type)12, 128, 8, true>(char const*)", "matmul"),
        ("nvjet_hsh_128x128_64x5_2x1_v_bz_TNN", "matmul"),
        ("ampere_sgemm_128x64_tn", "matmul"),
        ("rms_norm_f32<1024>(float const*, float*, int)", "norm"),
        ("triton_red_fused_native_layer_norm_0", "norm"),
        ("convert_unary<__half, float>(void const*, float*)", "copy"),
        ("implicit_convolve_sgemm<float, float, 1024>(int)", "convolution"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs4096)", "communication"),
        ("k_bin_bcast<&op_add, float, float, float>(float const*)", "elementwise"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(int)", "reduction"),
        ("triton_poi_fused_silu_0", "elementwise"),
        ("my_own_kernel(int*)", "other"),
    ],
)
def test_a_kernels_category(kernel: str, category: str) -> None:
    """The function's name says it or, if it does not, its templates' arguments."""
    assert category_of(kernel) == category

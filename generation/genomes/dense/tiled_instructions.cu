%% section cp_async
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    int bytes = inside ? COPY_BYTES : 0;
#if COPY_BYTES_IS_16
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
#elif COPY_BYTES_IS_8
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
#endif
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void copy_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
%% section ldmatrix
__device__ __forceinline__ void load_matrix_x4(unsigned* r, const void* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_matrix_x4_transposed(unsigned* r, const void* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_matrix_x2(unsigned* r, const void* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}
__device__ __forceinline__ void load_matrix_x2_transposed(unsigned* r, const void* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(from);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}
%% section tf32
__device__ __forceinline__ unsigned to_tf32(float v) {
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
    return r;
}
%% section mma
<%# One tensor-core product of a warp by operand type; d is 16 by 8, rows of a and columns of b are 32 bytes. %>
%% set kinds = {
    "bfloat16": "m16n8k16.row.col.f32.bf16.bf16.f32",
    "float16": "m16n8k16.row.col.f32.f16.f16.f32",
    "float32": "m16n8k8.row.col.f32.tf32.tf32.f32",
    "int8": "m16n8k32.row.col.s32.s8.s8.s32",
}
%% set held = "r" if operands == "int8" else "f"
__device__ __forceinline__ void multiply(${"int" if operands == "int8" else "float"}* d, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.${kinds[operands]} {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+${held}"(d[0]), "+${held}"(d[1]), "+${held}"(d[2]), "+${held}"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
%% section fp8_half
// e4m3 bits shifted into float16 are 2^-8 of the value; a word of four becomes two words of two.
__device__ __forceinline__ void widen(unsigned w, unsigned* r) {
    unsigned low = (w & 0xffu) | ((w & 0xff00u) << 8);
    unsigned high = ((w >> 16) & 0xffu) | ((w >> 8) & 0xff0000u);
    r[0] = ((low & 0x00800080u) << 8) | ((low & 0x007f007fu) << 7);
    r[1] = ((high & 0x00800080u) << 8) | ((high & 0x007f007fu) << 7);
}
// Which k a fragment slot stands for is free as long as both operands agree, so the four bytes of a lane serve as
// two float16 slots of one product.
__device__ __forceinline__ void multiply_fp8(float* d, const unsigned* a, const unsigned* b) {
    unsigned wide_a[8], wide_b[4];
    for (int i = 0; i < 4; ++i) widen(a[i], wide_a + 2 * i);
    for (int i = 0; i < 2; ++i) widen(b[i], wide_b + 2 * i);
    unsigned first[4] = {wide_a[0], wide_a[2], wide_a[1], wide_a[3]};
    unsigned second[4] = {wide_a[4], wide_a[6], wide_a[5], wide_a[7]};
    multiply(d, first, wide_b);
    multiply(d, second, wide_b + 2);
}
%% section fp8_native
__device__ __forceinline__ void multiply_fp8_native(float* d, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
%% section warp_reduce
__device__ __forceinline__ float warp_sum(float v) {
    for (int lanes = 16; lanes > 0; lanes >>= 1) v += __shfl_xor_sync(0xffffffffu, v, lanes);
    return v;
}
%% if product.row != "group_norm"
__device__ __forceinline__ float warp_max(float v) {
    for (int lanes = 16; lanes > 0; lanes >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, lanes));
    return v;
}
%% endif

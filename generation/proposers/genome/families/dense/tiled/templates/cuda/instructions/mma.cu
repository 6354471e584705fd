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

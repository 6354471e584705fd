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

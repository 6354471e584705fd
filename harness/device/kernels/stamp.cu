using Word = unsigned long long;

__device__ __forceinline__ Word turned(Word word, int by) { return word << by | word >> (64 - by); }

__device__ __forceinline__ void mix(Word& a, Word& b, Word& c, Word& d) {
    a += b, c += d, b = turned(b, 13) ^ a, d = turned(d, 16) ^ c, a = turned(a, 32);
    c += b, a += d, b = turned(b, 17) ^ c, d = turned(d, 21) ^ a, c = turned(c, 32);
}

// Of 23 bytes: the place has seven, and the top byte of the last word is the length.
__device__ __forceinline__ Word siphash(Word nonce, Word time, Word place) {
    Word a = KEYED_0, b = KEYED_1, c = KEYED_2, d = KEYED_3;
    const Word blocks[3] = {nonce, time, place | 23ull << 56};
    #pragma unroll
    for (int i = 0; i < 3; i++) {
        d ^= blocks[i];
        mix(a, b, c, d), mix(a, b, c, d);
        a ^= blocks[i];
    }
    c ^= 0xff;
    mix(a, b, c, d), mix(a, b, c, d), mix(a, b, c, d), mix(a, b, c, d);
    return a ^ b ^ c ^ d;
}

extern "C" __global__ void stamp(Word* table, Word nonce, Word place) {
    Word time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time) :: "memory");
    table[2 * place] = time;
    table[2 * place + 1] = siphash(nonce, time, place);
}

// Replaces each tag by whether it is right.
extern "C" __global__ void check(Word* table, Word nonce) {
    const Word place = threadIdx.x;
    table[2 * place + 1] = table[2 * place + 1] == siphash(nonce, table[2 * place], place);
}

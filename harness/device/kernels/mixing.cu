using Word = unsigned long long;

// Depends on every bit and on where the value lies.
__device__ __forceinline__ Word mixed(Word value, Word at) {
    value = (value ^ FIRST + at * SECOND) * FACTOR;
    value = (value ^ value >> 32) * THIRD;
    return value ^ value >> 32;
}

// What hides a sum.
__device__ __forceinline__ Word pad(Word nonce, Word address, Word count) {
    return mixed(mixed(mixed(nonce, PAD) + address, PAD + 1) + count, PAD + 2);
}

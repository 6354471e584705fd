struct Row {
    const unsigned char* bytes;
    Word count, nonce;
};
struct Rows { Row row[ROWS]; };

__device__ Word word_at(const unsigned char* from) {
    Word word = 0;
    for (int i = 0; i < 8; ++i) word |= (Word)from[i] << 8 * i;
    return word;
}

// Of pairs of words of eight bytes, and of the single bytes after them; with a pad on it.
extern "C" __global__ void sum_rows(const Rows rows, Word* sums) {
    const Row row = rows.row[blockIdx.y];
    const Word step = (Word)gridDim.x * blockDim.x;
    const Word first = (Word)blockIdx.x * blockDim.x + threadIdx.x;
    const Word pairs = row.count / 16;
    const bool aligned = (Word)row.bytes % 16 == 0;
    Word sum = first == 0 ? pad(row.nonce, (Word)row.bytes, row.count) : 0;
    for (Word i = first; i < pairs; i += step) {
        const unsigned char* from = row.bytes + 16 * i;
        const ulonglong2 two = aligned ? *reinterpret_cast<const ulonglong2*>(from)
                                       : make_ulonglong2(word_at(from), word_at(from + 8));
        sum += mixed(two.x, 16 * i) + mixed(two.y, 16 * i + 8);
    }
    for (Word i = 16 * pairs + first; i < row.count; i += step) sum += mixed(row.bytes[i], i);
    for (int lane = 16; lane > 0; lane >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0 && sum != 0) atomicAdd(&sums[blockIdx.y], sum);
}

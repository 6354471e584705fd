struct Row {
    unsigned char* bytes;
    Word count, nonce;
};
struct Rows { Row row[ROWS]; };

extern "C" __global__ void mask_rows(const Rows rows) {
    const Row row = rows.row[blockIdx.y];
    const Word step = (Word)gridDim.x * blockDim.x;
    const Word first = (Word)blockIdx.x * blockDim.x + threadIdx.x;
    const Word words = (Word)row.bytes % 8 == 0 ? row.count / 8 : 0;
    for (Word i = first; i < words; i += step)
        reinterpret_cast<Word*>(row.bytes)[i] ^= mixed(row.nonce, MASK + i);
    for (Word i = 8 * words + first; i < row.count; i += step)
        row.bytes[i] ^= (unsigned char)(mixed(row.nonce, MASK + i / 8) >> i % 8 * 8);
}

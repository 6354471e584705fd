struct Row {
    const unsigned char* one;
    const unsigned char* other;
    unsigned long long fill, bytes;
};
struct Rows { Row row[ROWS]; };

extern "C" __global__ void compare_rows(const Rows rows, unsigned char* same) {
    const Row row = rows.row[blockIdx.y];
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const bool aligned = (((unsigned long long)row.one | (unsigned long long)row.other) & 15) == 0;
    const unsigned long long words = aligned ? row.bytes / 16 : 0;
    const unsigned int filled = (unsigned int)row.fill * 0x01010101u;
    bool differs = false;
    for (unsigned long long i = first; i < words; i += step) {
        const uint4 a = reinterpret_cast<const uint4*>(row.one)[i];
        uint4 b = make_uint4(filled, filled, filled, filled);
        if (row.other != nullptr) b = reinterpret_cast<const uint4*>(row.other)[i];
        differs |= a.x != b.x || a.y != b.y || a.z != b.z || a.w != b.w;
    }
    for (unsigned long long i = 16 * words + first; i < row.bytes; i += step)
        differs |= row.one[i] != (row.other != nullptr ? row.other[i] : (unsigned char)row.fill);
    if (differs) same[blockIdx.y] = 0;
}

struct Region {
    unsigned char* start;
    unsigned long long bytes;
};
struct Regions { Region region[REGIONS]; };
struct Watch {
    Region part[PARTS];
    Word parts, nonce;
    Word* fingerprint;
};

// What sixteen bytes contribute; those that lie outside the parts are left out.
__device__ Word contribution(const unsigned char* from, const Watch& watch) {
    Word total = 0;
    for (int n = 0; n < watch.parts; ++n) {
        const unsigned char* first = watch.part[n].start;
        const unsigned char* end = first + watch.part[n].bytes;
        const Word at = (Word)(from - first) + ((Word)n << 48);
        if (from >= first && from + 16 <= end) {
            const ulonglong2 two = *reinterpret_cast<const ulonglong2*>(from);
            total += mixed(two.x, at) + mixed(two.y, at + 8);
        } else if (from < end && from + 16 > first) {
            for (int i = 0; i < 16; ++i)
                if (from + i >= first && from + i < end) total += mixed(from[i], at + i);
        }
    }
    return total;
}

// Adds up over a block; its shared memory is in use until then.
__device__ void add_up(Word total, volatile unsigned int* memory, Word* to) {
    for (int lane = 16; lane > 0; lane >>= 1) total += __shfl_down_sync(0xffffffffu, total, lane);
    if (threadIdx.x % 32 == 0) {
        memory[threadIdx.x / 16] = (unsigned int)total;
        memory[threadIdx.x / 16 + 1] = (unsigned int)(total >> 32);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < blockDim.x / 32; ++warp) total += memory[2 * warp] | (Word)memory[2 * warp + 1] << 32;
        atomicAdd(to, total);
    }
    __syncthreads();
}

// Shared memory, and stretches of global memory; every byte of the word is the same.
extern "C" __global__ void scrub(
    const __grid_constant__ Regions regions, const __grid_constant__ Watch watch, int shared_words, unsigned int word) {
    extern __shared__ volatile unsigned int memory[];
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    Word total = first == 0 ? pad(watch.nonce, (Word)watch.fingerprint, ~0ull) : 0;
#pragma unroll 1
    for (int at = 0; at < REGIONS; ++at) {
        const Region region = regions.region[at];
        const unsigned long long wide = (unsigned long long)region.start % 16 == 0 ? region.bytes / 16 : 0;
        for (unsigned long long i = first; i < wide; i += step) {
            if (watch.parts != 0) total += contribution(region.start + 16 * i, watch);
            reinterpret_cast<uint4*>(region.start)[i] = make_uint4(word, word, word, word);
        }
        for (unsigned long long i = 16 * wide + first; i < region.bytes; i += step)
            region.start[i] = (unsigned char)word;
    }
    if (watch.parts != 0) add_up(total, memory, watch.fingerprint);
    for (int i = threadIdx.x; i < shared_words; i += blockDim.x) memory[i] = word;
}

template <int BYTES>
__global__ void scrub_local(int step, unsigned int word) {
    volatile unsigned int stack[BYTES / 4];
    // A step that is not known when compiling keeps the array out of registers.
    for (int i = 0; i < BYTES / 4; i += step) stack[i] = word;
}

// One block per row of a table: to, from, bytes.
extern "C" __global__ void copy_rows(const unsigned long long* table) {
    const unsigned long long* row = table + 3ull * blockIdx.x;
    unsigned char* to = reinterpret_cast<unsigned char*>(row[0]);
    const unsigned char* from = reinterpret_cast<const unsigned char*>(row[1]);
    for (unsigned long long i = threadIdx.x; i < row[2]; i += blockDim.x) to[i] = from[i];
}

// Repeats a pattern of sixteen bytes, in words of one width and then in single bytes. A block's threads write next to
// each other, as often as each of them has words.
template <typename WORD>
__global__ void fill(WORD* to, const __grid_constant__ ulonglong2 pattern, unsigned long long nbytes, int each) {
    const unsigned long long thread = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long count = nbytes / sizeof(WORD), last = count * sizeof(WORD) + thread;
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x * each + threadIdx.x;
    for (int n = 0; n < each && i < count; ++n, i += blockDim.x)
        to[i] = reinterpret_cast<const WORD*>(&pattern)[i % (16 / sizeof(WORD))];
    if (last < nbytes)
        reinterpret_cast<unsigned char*>(to)[last] = reinterpret_cast<const unsigned char*>(&pattern)[last % 16];
}

// A block of threads multiplies tiles in shared memory; a thread keeps sums at rows ty + i * TY, columns tx + j * TX.
const int TX = ${tx}, TY = ${threads // tx}, THREADS = ${threads};

template <int M, int N, int K, bool TURN>
__device__ __forceinline__ void multiply(const float* a, int a_line, const float* b, int b_line,
                                         float (&sums)[(M + TY - 1) / TY][(N + TX - 1) / TX]) {
    int tx = threadIdx.x % TX, ty = threadIdx.x / TX;
    #pragma unroll ${unroll}
    for (int k = 0; k < K; ++k) {
        float left[(M + TY - 1) / TY], right[(N + TX - 1) / TX];
        #pragma unroll
        for (int i = 0; i < (M + TY - 1) / TY; ++i) {
            int r = ty + i * TY;
            left[i] = r < M ? (TURN ? a[k * a_line + r] : a[r * a_line + k]) : 0.0f;
        }
        #pragma unroll
        for (int j = 0; j < (N + TX - 1) / TX; ++j) right[j] = tx + j * TX < N ? b[k * b_line + tx + j * TX] : 0.0f;
        #pragma unroll
        for (int i = 0; i < (M + TY - 1) / TY; ++i)
            #pragma unroll
            for (int j = 0; j < (N + TX - 1) / TX; ++j) sums[i][j] += left[i] * right[j];
    }
}

template <int ROWS, int COLS>
__device__ __forceinline__ void fetch(const float* from, long long line, float* to, int to_line) {
%% if vector
    for (int i = threadIdx.x; i < ROWS * COLS / 4; i += THREADS) {
        int r = i / (COLS / 4), c = i % (COLS / 4) * 4;
        float4 value = *reinterpret_cast<const float4*>(from + r * line + c);
        float* place = to + r * to_line + c;
        place[0] = value.x;
        place[1] = value.y;
        place[2] = value.z;
        place[3] = value.w;
    }
%% else
    for (int i = threadIdx.x; i < ROWS * COLS; i += THREADS)
        to[i / COLS * to_line + i % COLS] = from[i / COLS * line + i % COLS];
%% endif
}

#define EACH(M, N)                                                   \
    for (int i = 0, r = threadIdx.x / TX; i < (M + TY - 1) / TY; ++i, r += TY) \
        for (int j = 0, c = threadIdx.x % TX; j < (N + TX - 1) / TX; ++j, c += TX) \
            if (r < M && c < N)

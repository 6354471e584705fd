%% section tile
<%# What ends a tile: stores from registers, or through shared memory, where rows can be walked. %>
%% macro raw(sum)
${sum}${" * SUM_SCALE" if product.dtype == "float8_e4m3fn" else ""}
%%- endmacro
%% macro finished(sum)
%% set scaled = sum ~ " * SUM_SCALE" if product.dtype == "float8_e4m3fn" else "(float)" ~ sum
${"value(" ~ scaled ~ ", m, n, " ~ product.elementwise | join("_at, ") ~ "_at)" if product.elementwise else scaled}
%%- endmacro
%% macro ended(sum)
${raw(sum) if finish == "separate" else finished(sum)}
%%- endmacro
%% if finish == "separate" and split_k > 1
%% set to = "sums + ((size_t)blockIdx.z * gridDim.y + blockIdx.y) * M * N"
%% elif finish == "separate"
%% set to = "sums + (size_t)blockIdx.y * M * N" if product.batched else "sums"
%% else
%% set to = "out"
%% endif
%% set kind = output if finish != "separate" else sum_type
{
%% if not staged
%% macro store(value)
${"to[(size_t)m * N + n] = " ~ value ~ ";" if kind == "int" else "put(to + (size_t)m * N + n, " ~ value ~ ");"}
%%- endmacro
    ${kind}* to = ${to};
%% if engine != "mma"
    for (int i = 0; i < TM; ++i) for (int j = 0; j < TN; ++j) {
        const int m = m0 + ROW(i), n = n0 + COLUMN(j);
        if (m < m_to && n < N) ${store(ended("acc[i][j]"))}
    }
%% else
    #pragma unroll
    for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j) for (int h = 0; h < 2; ++h) {
        const int m = m0 + wm + i * 16 + g + 8 * h;
%% if not product.aligned
        for (int e = 0; e < 2; ++e) { const int n = n0 + wn + j * 8 + 2 * t + e; if (m < m_to && n < N) ${store(ended("acc[i][j][2 * h + e]"))} }
%% else
<%# Two neighbouring outputs in one store; the second needs its own column in the epilogue. %>
        int n = n0 + wn + j * 8 + 2 * t;
        if (m < m_to && n < N) {
            const auto one = ${ended("acc[i][j][2 * h]")}; ++n;
            const auto two = ${ended("acc[i][j][2 * h + 1]")}; --n;
%% set pair, make = {
    "float": ("float2", "make_float2"), "int": ("int2", "make_int2"),
    "__nv_bfloat16": ("__nv_bfloat162", "__floats2bfloat162_rn"), "__half": ("__half2", "__floats2half2_rn"),
}[kind]
            *(${pair}*)(to + (size_t)m * N + n) = ${make}(one, two);
        }
%% endif
    }
%% endif
%% else
    float* cs = (float*)shared;
    __syncthreads();
%% if engine == "wmma"
    for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j)
        wmma::store_matrix_sync(cs + (wm + i * 16) * LDC + wn + j * 16, acc[i][j], LDC, wmma::mem_row_major);
%% elif engine == "mma"
    #pragma unroll
    for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j) for (int e = 0; e < 4; ++e)
        cs[(wm + i * 16 + g + 8 * (e >> 1)) * LDC + wn + j * 8 + 2 * t + (e & 1)] = acc[i][j][e];
%% else
    for (int i = 0; i < TM; ++i) for (int j = 0; j < TN; ++j) cs[ROW(i) * LDC + COLUMN(j)] = acc[i][j];
%% endif
    __syncthreads();
%% if finish == "separate"
    float* to = ${to};
%% endif
    for (int i = tid; i < BM * BN; i += THREADS) { const int lm = i / BN, ln = i % BN;
        const int m = m0 + lm, n = n0 + ln;
%% if finish == "separate"
        if (m < m_to && n < N) to[(size_t)m * N + n] = ${raw("cs[lm * LDC + ln]")};
%% elif not product.row
        if (m < m_to && n < N) put(out + (size_t)m * N + n, ${finished("cs[lm * LDC + ln]")});
%% else
        const float v = m < m_to && n < N ? ${finished("cs[lm * LDC + ln]")} : ${"0.0f" if product.row == "sum" else "-3.0e38f"};
        cs[lm * LDC + ln] = v;
%% if product.row == "softmax"
        if (m < m_to && n < N) sums[(size_t)m * N + n] = v;
%% endif
%% endif
    }
%% if finish != "separate" and product.row
    __syncthreads();
%% if product.row == "group_norm"
    for (int i = tid; i < BM * (BN / 32); i += THREADS) {
        const int lm = i / (BN / 32), first = i % (BN / 32) * 32, m = m0 + lm;
        if (m >= m_to || n0 + first >= N) continue;
        const float* v = cs + lm * LDC + first;
        float mean = 0.0f, square = 0.0f;
        for (int e = 0; e < 32; ++e) mean += v[e];
        mean *= 1.0f / 32;
        for (int e = 0; e < 32; ++e) square += (v[e] - mean) * (v[e] - mean);
        const float scale = rsqrtf(square * (1.0f / 32) + 1e-5f);
        for (int e = 0; e < 32; ++e) {
            const int n = n0 + first + e;
            put(out + (size_t)m * N + n, (v[e] - mean) * scale * to_float(gamma_at[n]) + to_float(beta_at[n]));
        }
    }
%% else
    for (int lm = tid; lm < BM; lm += THREADS) {
        const int m = m0 + lm;
        if (m >= m_to) continue;
%% if product.row == "sum"
        float total = 0.0f;
        for (int ln = 0; ln < BN; ++ln) total += cs[lm * LDC + ln];
%% else
        float high = -3.0e38f, total = 0.0f;
        for (int ln = 0; ln < BN; ++ln) high = fmaxf(high, cs[lm * LDC + ln]);
        for (int ln = 0; ln < BN; ++ln) total += expf(cs[lm * LDC + ln] - high);
        peak[(size_t)pid_n * M + m] = high;
%% endif
        part[(size_t)pid_n * M + m] = total;
    }
%% endif
%% endif
%% endif
}
%% section pass
<%# The second kernel: joins parts of sums or row statistics, and applies what needs a whole row. %>
%% macro joined(at)
<%# Declares `acc` as the sum of all parts at an index. %>
    ${sum_type} acc = sums[${at}];
%% if split_k > 1
    for (int p = 1; p < ${split_k}; ++p) acc += sums[p * size + ${at}];
%% endif
%% endmacro
%% set value = "value((float)acc, m, n, " ~ product.elementwise | join("_at, ") ~ "_at)" if product.elementwise else "(float)acc"
%% macro row_value()
        const size_t at = (size_t)m * N + n;
${joined("at")}
        const float v = ${value};
%% endmacro
%% macro warp_join()
%% if product.row == "sum"
    total = warp_sum(total);
%% else
    { const float high = warp_max(peak);
    total = warp_sum(peak == -3.0e38f ? 0.0f : total * expf(peak - high)); peak = high; }
%% endif
%% endmacro
%% macro logsumexp()
    float v = peak + logf(total);
    v = v > 0.0f ? v : 0.0001f * v;
    ${gelu}
    ${gelu}
    put(out + m, v);
%% endmacro
%% if finish == "partial" and product.row == "sum"
extern "C" __global__ void finish(const float* part, ${output}* out, int M, int tiles) {
    const int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= M) return;
    float total = 0.0f;
    for (int i = 0; i < tiles; ++i) total += part[(size_t)i * M + m];
    put(out + m, total);
}
%% elif finish == "partial"
%% if product.row == "logsumexp"
extern "C" __global__ void finish(const float* peaks, const float* part, ${output}* out, int M, int tiles) {
    const int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= M) return;
%% else
extern "C" __global__ void finish(const float* sums, const float* peaks, const float* part, ${output}* out, int M, int N, int tiles) {
    const int m = blockIdx.x;
%% endif
    float peak = -3.0e38f, total = 0.0f;
    for (int i = 0; i < tiles; ++i) peak = fmaxf(peak, peaks[(size_t)i * M + m]);
    for (int i = 0; i < tiles; ++i) total += part[(size_t)i * M + m] * expf(peaks[(size_t)i * M + m] - peak);
%% if product.row == "logsumexp"
${logsumexp()}
%% else
    for (int n = threadIdx.x; n < N; n += blockDim.x)
        put(out + (size_t)m * N + n, expf(sums[(size_t)m * N + n] - peak) / total);
%% endif
}
%% else
extern "C" __global__ void finish(const ${sum_type}* sums, ${output}* out, <%% for vector in product.vectors %%>const ${types[vector.dtype]}* ${vector.name}_at, <%% endfor %%>long long size, int M, int N) {
%% if product.row in ("", "group_norm")
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
<%# Groups are whole warps, so a warp leaves together. %>
    if (i >= size) return;
    const int m = (int)(i / N), n = (int)(i % N);
${joined("i")}
%% if product.row
    float v = ${value};
    v -= warp_sum(v) * (1.0f / 32);
    v *= rsqrtf(warp_sum(v * v) * (1.0f / 32) + 1e-5f);
    put(out + i, v * to_float(gamma_at[n]) + to_float(beta_at[n]));
%% else
    put(out + i, ${value});
%% endif
%% else
%% set each_column = "for (int n = lane; n < N; n += 32) {" if rows == "warp" else "for (int n = threadIdx.x; n < N; n += blockDim.x) {"
%% set first_thread = "lane == 0" if rows == "warp" else "threadIdx.x == 0"
    const int m = ${"blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)" if rows == "warp" else "blockIdx.x"};
    const int lane = threadIdx.x & 31;
    if (m >= M) return;
    float peak = -3.0e38f, total = 0.0f;
    ${each_column}
${row_value()}
%% if product.row == "sum"
        total += v;
%% else
        const float higher = fmaxf(peak, v);
        total = total * expf(peak - higher) + expf(v - higher);
        peak = higher;
%% endif
    }
${warp_join()}
%% if rows != "warp"
    __shared__ float totals[32], peaks[32];
    if (lane == 0) { totals[threadIdx.x >> 5] = total; peaks[threadIdx.x >> 5] = peak; }
    __syncthreads();
    const int warps = blockDim.x >> 5;
    total = lane < warps ? totals[lane] : 0.0f;
    peak = lane < warps ? peaks[lane] : -3.0e38f;
${warp_join()}
%% endif
%% if product.row == "sum"
    if (${first_thread}) put(out + m, total);
%% elif product.row == "logsumexp"
    if (${first_thread}) {
${logsumexp()}
    }
%% else
    ${each_column}
${row_value()}
        put(out + at, expf(v - peak) / total);
    }
%% endif
%% endif
}
%% endif

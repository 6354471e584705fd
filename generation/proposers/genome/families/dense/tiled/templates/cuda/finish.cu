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

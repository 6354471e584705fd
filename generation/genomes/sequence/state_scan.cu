// The selective scan: step by step, associative or closed form, over states or over time.
// family state_scan_cuda for selective_scan
// shape method = "states", "states", "time"
// shape lanes = 1, 2, 4, 8, 16
// shape stage = False, True
// shape fast = True, False
// pick part = 16, 32, 64
// pick threads = 32, 64, 128, 256
// pick unroll = 1, 2, 4
// refuse method == "time" and (lanes != 4 or stage or part != 32 or (unroll != 1)): lanes and stages belong to the
//     state form
// refuse not stage and part != 32: parts belong to the staged form
// refuse stage and (unroll != 1 or (2 * threads // lanes + 32) * (part + 1) * 4 > 48000): shared memory

const int THREADS = ${threads}, N = 16, LANES = ${lanes}, OWN = N / LANES;

__device__ __forceinline__ float power(float x) { return ${"__expf" if fast else "expf"}(x); }

%% if method == "time"
// A block takes one channel; its threads share the tokens, joined by a scan for every state.
extern "C" __global__ void __launch_bounds__(THREADS)
scan(const float* __restrict__ u, const float* __restrict__ delta, const float* __restrict__ a,
     const float* __restrict__ b, const float* __restrict__ c, const float* __restrict__ skip, float* __restrict__ y,
     int channels, int length) {
    const int MOST = 16;
    __shared__ float decays[32], drives[32];
    int channel = blockIdx.x, batch = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long line = ((long long)batch * channels + channel) * length;
    int each = (length + THREADS - 1) / THREADS, first = threadIdx.x * each;
    float steps[MOST], inputs[MOST], sums[MOST];
    #pragma unroll
    for (int i = 0; i < MOST; ++i) {
        bool known = i < each && first + i < length;
        steps[i] = known ? delta[line + first + i] : 0.0f;
        inputs[i] = known ? u[line + first + i] : 0.0f;
        sums[i] = 0.0f;
    }
    for (int n = 0; n < N; ++n) {
        float rate = a[channel * N + n];
        long long shared_line = ((long long)batch * N + n) * length;
        float decay = 1.0f, drive = 0.0f;
        #pragma unroll
        for (int i = 0; i < MOST; ++i)
            if (i < each && first + i < length) {
                float shrink = power(steps[i] * rate);
                decay *= shrink;
                drive = drive * shrink + steps[i] * inputs[i] * b[shared_line + first + i];
            }
        for (int gap = 1; gap < 32; gap *= 2) {
            float other_decay = __shfl_up_sync(0xffffffffu, decay, gap);
            float other_drive = __shfl_up_sync(0xffffffffu, drive, gap);
            if (lane >= gap) {
                drive += decay * other_drive;
                decay *= other_decay;
            }
        }
        if (lane == 31) {
            decays[warp] = decay;
            drives[warp] = drive;
        }
        __syncthreads();
        float before = 0.0f;
        for (int w = 0; w < warp; ++w) before = before * decays[w] + drives[w];
        float left_decay = __shfl_up_sync(0xffffffffu, decay, 1), left_drive = __shfl_up_sync(0xffffffffu, drive, 1);
        float state = lane == 0 ? before : before * left_decay + left_drive;
        #pragma unroll
        for (int i = 0; i < MOST; ++i)
            if (i < each && first + i < length) {
                state = state * power(steps[i] * rate) + steps[i] * inputs[i] * b[shared_line + first + i];
                sums[i] += state * c[shared_line + first + i];
            }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < MOST; ++i)
        if (i < each && first + i < length) y[line + first + i] = sums[i] + skip[channel] * inputs[i];
}
%% else
const int CHANNELS = THREADS / LANES;

extern "C" __global__ void __launch_bounds__(THREADS)
scan(const float* __restrict__ u, const float* __restrict__ delta, const float* __restrict__ a,
     const float* __restrict__ b, const float* __restrict__ c, const float* __restrict__ skip, float* __restrict__ y,
     int channels, int length) {
    int lane = threadIdx.x % LANES, slot = threadIdx.x / LANES;
    int channel = blockIdx.x * CHANNELS + slot, batch = blockIdx.y;
    bool known = channel < channels;
    if (!known) channel = channels - 1;
    long long line = ((long long)batch * channels + channel) * length;
    long long shared_line = (long long)batch * N * length;
    float rate[OWN], state[OWN];
    #pragma unroll
    for (int i = 0; i < OWN; ++i) {
        rate[i] = a[channel * N + lane * OWN + i];
        state[i] = 0.0f;
    }
    float through = skip[channel];
%% if stage
    const int PART = ${part};
    __shared__ float inputs[CHANNELS][PART + 1], steps[CHANNELS][PART + 1], bs[N][PART + 1], cs[N][PART + 1];
    for (int start = 0; start < length; start += PART) {
        __syncthreads();
        for (int i = threadIdx.x; i < CHANNELS * PART; i += THREADS) {
            int r = i / PART, t = start + i % PART;
            int from = min((int)blockIdx.x * CHANNELS + r, channels - 1);
            long long place = ((long long)batch * channels + from) * length + t;
            inputs[r][i % PART] = t < length ? u[place] : 0.0f;
            steps[r][i % PART] = t < length ? delta[place] : 0.0f;
        }
        for (int i = threadIdx.x; i < N * PART; i += THREADS) {
            int n = i / PART, t = start + i % PART;
            bs[n][i % PART] = t < length ? b[shared_line + (long long)n * length + t] : 0.0f;
            cs[n][i % PART] = t < length ? c[shared_line + (long long)n * length + t] : 0.0f;
        }
        __syncthreads();
        int stop = min(PART, length - start);
        for (int k = 0; k < stop; ++k) {
            float input = inputs[slot][k], step = steps[slot][k], sum = 0.0f;
            #pragma unroll
            for (int i = 0; i < OWN; ++i) {
                state[i] = power(step * rate[i]) * state[i] + step * input * bs[lane * OWN + i][k];
                sum += state[i] * cs[lane * OWN + i][k];
            }
            for (int gap = LANES / 2; gap > 0; gap /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, gap);
            __syncwarp();
            if (lane == 0) inputs[slot][k] = sum + through * input;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < CHANNELS * PART; i += THREADS) {
            int r = i / PART, t = start + i % PART, to = blockIdx.x * CHANNELS + r;
            if (to < channels && t < length) y[((long long)batch * channels + to) * length + t] = inputs[r][i % PART];
        }
    }
%% else
    #pragma unroll ${unroll}
    for (int t = 0; t < length; ++t) {
        float input = u[line + t], step = delta[line + t], sum = 0.0f;
        #pragma unroll
        for (int i = 0; i < OWN; ++i) {
            long long place = shared_line + (long long)(lane * OWN + i) * length + t;
            state[i] = power(step * rate[i]) * state[i] + step * input * b[place];
            sum += state[i] * c[place];
        }
        for (int gap = LANES / 2; gap > 0; gap /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, gap);
        if (known && lane == 0) y[line + t] = sum + through * input;
    }
%% endif
}
%% endif
%% host
def run(u, delta, a, b, c, skip):
    batch, channels, length = u.shape
    y = torch.empty_like(u)
%% if method == "time"
    grid = (channels, batch)
%% else
    grid = ((channels + ${threads // lanes - 1}) // ${threads // lanes}, batch)
%% endif
    module.launch("scan", grid=grid, block=${threads}, args=(u, delta, a, b, c, skip, y, channels, length))
    return y

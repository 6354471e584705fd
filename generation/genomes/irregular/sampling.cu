// Draw of a token: softmax and an arg-max of probability over noise.
// family sampling_cuda for sampling_softmax
// shape passes = "two", "online", "rescale"
// shape score = "log", "quotient"
// shape split = 1, 2, 4, 8
// shape vector = False, True
// shape reduce = "shuffle", "tree"
// pick threads = 64, 128, 256, 512, 1024
// pick unroll = 1, 4
// refuse passes != "two" and score == "quotient": the quotient needs the maximum first
// refuse vector and unroll != 1: the vector loop is not unrolled

const float LOWEST = -1.0e30f;
const int WARPS = ${threads // 32};

struct Draw {
    float top, sum, best;
    int token;
};

__device__ __forceinline__ Draw join(Draw a, Draw b) {
    Draw c;
    c.top = fmaxf(a.top, b.top);
    c.sum = a.sum * __expf(a.top - c.top) + b.sum * __expf(b.top - c.top);
    bool second = b.best > a.best || (b.best == a.best && b.token < a.token);
    c.best = second ? b.best : a.best;
    c.token = second ? b.token : a.token;
    return c;
}

__device__ __forceinline__ void add(Draw& draw, float value, float noise, int place) {
%% if passes == "two"
    draw.sum += __expf(value - draw.top);
%% elif passes == "online"
    float higher = fmaxf(draw.top, value);
    draw.sum = draw.sum * __expf(draw.top - higher) + __expf(value - higher);
    draw.top = higher;
%% else
    if (value > draw.top) {
        draw.sum *= __expf(draw.top - value);
        draw.top = value;
    }
    draw.sum += __expf(value - draw.top);
%% endif
%% if score == "quotient"
    float score = __fdividef(__expf(value - draw.top), noise);
%% else
    float score = value - __logf(noise);
%% endif
    if (score > draw.best) {
        draw.best = score;
        draw.token = place;
    }
}

__device__ __forceinline__ Draw join_block(Draw draw) {
    __shared__ Draw parts[${threads if reduce == "tree" else threads // 32}];
%% if reduce == "tree"
    parts[threadIdx.x] = draw;
    __syncthreads();
    for (int gap = ${threads // 2}; gap > 0; gap /= 2) {
        if (threadIdx.x < gap) parts[threadIdx.x] = join(parts[threadIdx.x], parts[threadIdx.x + gap]);
        __syncthreads();
    }
    return parts[0];
%% else
    for (int gap = 16; gap > 0; gap /= 2) {
        Draw other;
        other.top = __shfl_xor_sync(0xffffffffu, draw.top, gap);
        other.sum = __shfl_xor_sync(0xffffffffu, draw.sum, gap);
        other.best = __shfl_xor_sync(0xffffffffu, draw.best, gap);
        other.token = __shfl_xor_sync(0xffffffffu, draw.token, gap);
        draw = join(draw, other);
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = draw;
    __syncthreads();
    draw = parts[0];
    for (int w = 1; w < WARPS; ++w) draw = join(draw, parts[w]);
    return draw;
%% endif
}

__device__ __forceinline__ Draw scan(const float* logits, const float* noise, int first, int last, float inverse) {
    Draw draw = {LOWEST, 0.0f, LOWEST, 0x7fffffff};
%% if passes == "two"
    __shared__ float tops[32];
    float top = LOWEST;
    for (int i = first + threadIdx.x; i < last; i += ${threads}) top = fmaxf(top, logits[i]);
    for (int gap = 16; gap > 0; gap /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, gap));
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
    __syncthreads();
    for (int w = 0; w < WARPS; ++w) top = fmaxf(top, tops[w]);
    draw.top = top * inverse;
%% endif
%% if vector
    const float4* wide_logits = reinterpret_cast<const float4*>(logits);
    const float4* wide_noise = reinterpret_cast<const float4*>(noise);
    for (int i = first / 4 + threadIdx.x; i < last / 4; i += ${threads}) {
        float4 value = wide_logits[i], drawn = wide_noise[i];
        add(draw, value.x * inverse, drawn.x, 4 * i);
        add(draw, value.y * inverse, drawn.y, 4 * i + 1);
        add(draw, value.z * inverse, drawn.z, 4 * i + 2);
        add(draw, value.w * inverse, drawn.w, 4 * i + 3);
    }
%% else
    #pragma unroll ${unroll}
    for (int i = first + threadIdx.x; i < last; i += ${threads}) add(draw, logits[i] * inverse, noise[i], i);
%% endif
    draw = join_block(draw);
%% if score == "quotient"
    draw.best = __logf(draw.best) + draw.top;
%% endif
    return draw;
}

extern "C" __global__ void __launch_bounds__(${threads})
sample(const float* __restrict__ logits, const float* __restrict__ noise, float* __restrict__ parts, int* tokens,
       float* logs, int vocab, int share, float inverse) {
    long long row = blockIdx.x;
    const float* values = logits + row * vocab;
    int first = blockIdx.y * share, last = min(vocab, first + share);
    Draw draw = scan(values, noise + row * vocab, first, last, inverse);
    if (threadIdx.x == 0) {
%% if split > 1
        float* part = parts + (row * ${split} + blockIdx.y) * 4;
        part[0] = draw.top;
        part[1] = draw.sum;
        part[2] = draw.best;
        part[3] = __int_as_float(draw.token);
%% else
        tokens[row] = draw.token;
        logs[row] = values[draw.token] * inverse - draw.top - logf(draw.sum);
%% endif
    }
}

extern "C" __global__ void
finish(const float* __restrict__ logits, const float* __restrict__ parts, int* tokens, float* logs, int rows, int vocab,
       float inverse) {
    long long row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    Draw draw = {LOWEST, 0.0f, LOWEST, 0x7fffffff};
    for (int s = 0; s < ${split}; ++s) {
        const float* part = parts + (row * ${split} + s) * 4;
        Draw other = {part[0], part[1], part[2], __float_as_int(part[3])};
        draw = join(draw, other);
    }
    tokens[row] = draw.token;
    logs[row] = logits[row * vocab + draw.token] * inverse - draw.top - logf(draw.sum);
}
%% host
def run(logits, noise, temperature):
    rows, vocab = logits.shape
    tokens = torch.empty(rows, dtype=torch.int32, device=logits.device)
    logs = torch.empty(rows, dtype=torch.float32, device=logits.device)
    inverse = 1.0 / temperature
    parts = torch.empty((rows, ${split}, 4), dtype=torch.float32, device=logits.device)
    share = (vocab + ${4 * split - 1}) // ${4 * split} * 4
    args = (logits, noise, parts, tokens, logs, vocab, share, inverse)
    module.launch("sample", grid=(rows, ${split}), block=${threads}, args=args)
%% if split > 1
    args = (logits, parts, tokens, logs, rows, vocab, inverse)
    module.launch("finish", grid=(rows + 63) // 64, block=64, args=args)
%% endif
    return tokens, logs

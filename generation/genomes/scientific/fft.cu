// Fourier transforms: in registers, in shared memory, or passes over device memory.
// family fft_cuda for fft_butterfly
// shape place = "shared", "shared", "memory"
// shape radix = 2, 4, 8, 16
// shape turns = "exact", "fast"
// shape chain = "direct", "multiply"
// pick threads = 32, 64, 128, 256, 512

const int THREADS = ${threads}, MOST = 1024;

__device__ __forceinline__ void turn_of(float part, float* real, float* imag) {
    // The angle is -2 pi times `part`.
%% if turns == "exact"
    sincospif(-2.0f * part, imag, real);
%% else
    __sincosf(-6.2831853071795865f * part, imag, real);
%% endif
}

template <int R>
__device__ __forceinline__ void butterfly(const float (&in_real)[R], const float (&in_imag)[R], float (&out_real)[R],
                                          float (&out_imag)[R]) {
    const float roots[16] = {1.0f, 0.923879533f, 0.707106781f, 0.382683432f, 0.0f, -0.382683432f, -0.707106781f,
                             -0.923879533f, -1.0f, -0.923879533f, -0.707106781f, -0.382683432f, 0.0f, 0.382683432f,
                             0.707106781f, 0.923879533f};
    #pragma unroll
    for (int r = 0; r < R; ++r) {
        float sum_real = 0.0f, sum_imag = 0.0f;
        #pragma unroll
        for (int k = 0; k < R; ++k) {
            int step = k * r % R * (16 / R);
            float c = roots[step], s = -roots[(step + 12) % 16];
            sum_real += in_real[k] * c - in_imag[k] * s;
            sum_imag += in_real[k] * s + in_imag[k] * c;
        }
        out_real[r] = sum_real;
        out_imag[r] = sum_imag;
    }
}

template <int R>
__device__ __forceinline__ void one(const float* real, const float* imag, float* out_real, float* out_imag, int j,
                                    int size, int left, int stride, float scale) {
    float in_real[R], in_imag[R], sum_real[R], sum_imag[R];
    int each = size / R, p = j / stride, q = j % stride;
    #pragma unroll
    for (int k = 0; k < R; ++k) {
        in_real[k] = real[j + k * each];
        in_imag[k] = imag[j + k * each];
    }
    butterfly<R>(in_real, in_imag, sum_real, sum_imag);
    int to = q + stride * R * p;
%% if chain == "multiply"
    float step_real, step_imag, c = 1.0f, s = 0.0f;
    turn_of((float)p / left, &step_real, &step_imag);
%% endif
    #pragma unroll
    for (int r = 0; r < R; ++r) {
%% if chain == "direct"
        float c, s;
        turn_of((float)(p * r) / left, &c, &s);
%% endif
        out_real[to + r * stride] = (sum_real[r] * c - sum_imag[r] * s) * scale;
        out_imag[to + r * stride] = (sum_real[r] * s + sum_imag[r] * c) * scale;
%% if chain == "multiply"
        float next = c * step_real - s * step_imag;
        s = c * step_imag + s * step_real;
        c = next;
%% endif
    }
}

%% if place == "shared"
template <int R>
__device__ __forceinline__ void pass(const float* real, const float* imag, float* out_real, float* out_imag, int size,
                                     int left, int stride, float scale) {
    for (int j = threadIdx.x; j < size / R; j += THREADS)
        one<R>(real, imag, out_real, out_imag, j, size, left, stride, scale);
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
transform(const float* __restrict__ real, const float* __restrict__ imag, float* __restrict__ out_real,
          float* __restrict__ out_imag, int size, float scale) {
    __shared__ float kept[2][2][MOST];
    long long base = (long long)blockIdx.x * size;
    for (int i = threadIdx.x; i < size; i += THREADS) {
        kept[0][0][i] = real[base + i];
        kept[0][1][i] = imag[base + i];
    }
    __syncthreads();
    int side = 0, left = size, stride = 1;
    while (left > 1) {
        float factor = stride == 1 ? scale : 1.0f;
        float* from_real = kept[side][0];
        float* from_imag = kept[side][1];
        float* to_real = kept[1 - side][0];
        float* to_imag = kept[1 - side][1];
        int radix = 2;
%% if radix >= 16
        if (left % 16 == 0) radix = 16;
        else
%% endif
%% if radix >= 8
        if (left % 8 == 0) radix = 8;
        else
%% endif
%% if radix >= 4
        if (left % 4 == 0) radix = 4;
%% else
        {}
%% endif
%% if radix >= 16
        if (radix == 16) pass<16>(from_real, from_imag, to_real, to_imag, size, left, stride, factor);
%% endif
%% if radix >= 8
        if (radix == 8) pass<8>(from_real, from_imag, to_real, to_imag, size, left, stride, factor);
%% endif
%% if radix >= 4
        if (radix == 4) pass<4>(from_real, from_imag, to_real, to_imag, size, left, stride, factor);
%% endif
        if (radix == 2) pass<2>(from_real, from_imag, to_real, to_imag, size, left, stride, factor);
        left /= radix;
        stride *= radix;
        side = 1 - side;
    }
    for (int i = threadIdx.x; i < size; i += THREADS) {
        out_real[base + i] = kept[side][0][i];
        out_imag[base + i] = kept[side][1][i];
    }
}
%% else
%% for r in (2, 4, 8, 16)
extern "C" __global__ void __launch_bounds__(THREADS)
pass_${r}(const float* __restrict__ real, const float* __restrict__ imag, float* __restrict__ out_real,
       float* __restrict__ out_imag, int count, int size, int left, int stride, float scale) {
    int item = blockIdx.x * THREADS + threadIdx.x;
    if (item >= count) return;
    int each = size / ${r};
    long long base = (long long)(item / each) * size;
    one<${r}>(real + base, imag + base, out_real + base, out_imag + base, item % each, size, left, stride, scale);
}
%% endfor
%% endif
%% host
def run(real, imag):
    rows, size = real.shape
    out_real = torch.empty_like(real)
    out_imag = torch.empty_like(imag)
    scale = size**-0.5
%% if place == "shared"
    module.launch("transform", grid=rows, block=${threads}, args=(real, imag, out_real, out_imag, size, scale))
    return out_real, out_imag
%% else
    one = (out_real, out_imag)
    two = (torch.empty_like(real), torch.empty_like(imag))
    source = (real, imag)
    turn = 0
    left, stride = size, 1
    while left > 1:
        radix = min(${radix}, left)
        while left % radix:
            radix //= 2
        count = rows * size // radix
        target = two if turn % 2 else one
        args = (*source, *target, count, size, left, stride, scale if stride == 1 else 1.0)
        module.launch(f"pass_{radix}", grid=(count + ${threads - 1}) // ${threads}, block=${threads}, args=args)
        source = target
        turn += 1
        left //= radix
        stride *= radix
    return source
%% endif

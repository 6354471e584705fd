#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T> __device__ double widen(T v) { return double(v); }
template <> __device__ double widen(__half v) { return __half2float(v); }
template <> __device__ double widen(__nv_bfloat16 v) { return __bfloat162float(v); }

// Whether an answer is finite in the type of an output.
template <typename T> __device__ bool fits(double v) { return true; }
template <> __device__ bool fits<double>(double v) { return isfinite(v); }
template <> __device__ bool fits<float>(double v) { return isfinite(float(v)); }
template <> __device__ bool fits<__half>(double v) { return isfinite(__half2float(__float2half(float(v)))); }
template <> __device__ bool fits<__nv_bfloat16>(double v) {
    return isfinite(__bfloat162float(__float2bfloat16(float(v))));
}

struct Row {
    const void* out;
    const double* want;
    long long n;
    double atol, rtol, floor;
};
struct Rows { Row row[ROWS]; };

struct Totals {
    unsigned long long beyond, far, nonfinite;
    double largest_error, largest_relative;
};

// Doubles that are not negative are ordered as their bits are.
__device__ void keep_largest(double* place, double value) {
    atomicMax(reinterpret_cast<unsigned long long*>(place), (unsigned long long)__double_as_longlong(value));
}

template <typename T>
__global__ void measure(const Rows rows, Totals* of_rows) {
    const Row row = rows.row[blockIdx.y];
    const T* out = static_cast<const T*>(row.out);
    Totals* totals = of_rows + blockIdx.y;
    unsigned long long beyond = 0, far = 0, nonfinite = 0;
    double error = 0.0, relative = 0.0;
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < row.n; i += step) {
        const double w = row.want[i], o = widen(out[i]);
        // Where the answer overflows its type, the specification asks for nothing.
        if (!fits<T>(w)) continue;
        const double miss = fabs(o - w), size = fabs(w);
        const double allowed = row.atol + row.rtol * size;
        if (!(miss <= allowed)) ++beyond;
        if (!(miss <= EDGE_FACTOR * allowed)) ++far;
        if (!isfinite(o)) ++nonfinite;
        if (isfinite(miss)) {
            error = fmax(error, miss);
            relative = fmax(relative, miss / fmax(size, row.floor));
        }
    }
    for (int lane = 16; lane > 0; lane >>= 1) {
        beyond += __shfl_down_sync(0xffffffffu, beyond, lane);
        far += __shfl_down_sync(0xffffffffu, far, lane);
        nonfinite += __shfl_down_sync(0xffffffffu, nonfinite, lane);
        error = fmax(error, __shfl_down_sync(0xffffffffu, error, lane));
        relative = fmax(relative, __shfl_down_sync(0xffffffffu, relative, lane));
    }
    if (threadIdx.x % 32 == 0) {
        if (beyond) atomicAdd(&totals->beyond, beyond);
        if (far) atomicAdd(&totals->far, far);
        if (nonfinite) atomicAdd(&totals->nonfinite, nonfinite);
        keep_largest(&totals->largest_error, error);
        keep_largest(&totals->largest_relative, relative);
    }
}

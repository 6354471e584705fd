// Forces between all bodies.
// family gravity_cuda for nbody_forces
// shape stage = "shared", "shuffle", "direct"
// shape root = "rsqrt", "divide"
// shape gather = "parts", "atomic"
// shape splits = 1, 4, 16, 32
// shape each = 1, 2, 4
// pick threads = 32, 64, 128, 256
// pick unroll = 1, 4, 8, 16
// refuse gather == "atomic" and splits == 1: nothing to gather

const int THREADS = ${threads}, EACH = ${each}, SPLITS = ${splits};

__device__ __forceinline__ float3 position(const float* positions, int body) {
    return make_float3(positions[body * 3], positions[body * 3 + 1], positions[body * 3 + 2]);
}

__device__ __forceinline__ void pull(float3 at, float3 other, float mass, float softening, float3& sum) {
    float dx = other.x - at.x, dy = other.y - at.y, dz = other.z - at.z;
    float square = dx * dx + dy * dy + dz * dz + softening;
%% if root == "rsqrt"
    float inverse = rsqrtf(square);
    float weight = mass * inverse * inverse * inverse;
%% else
    float weight = mass / (square * sqrtf(square));
%% endif
    sum.x += dx * weight;
    sum.y += dy * weight;
    sum.z += dz * weight;
}

extern "C" __global__ void __launch_bounds__(THREADS)
forces(const float* __restrict__ positions, const float* __restrict__ masses, float* __restrict__ out, int count,
       int share, float softening) {
%% if stage == "shared"
    __shared__ float4 kept[THREADS];
%% endif
    int first = blockIdx.y * share, last = min(count, first + share);
    float3 at[EACH], sum[EACH];
    #pragma unroll
    for (int e = 0; e < EACH; ++e) {
        int body = (blockIdx.x * EACH + e) * THREADS + threadIdx.x;
        at[e] = position(positions, min(body, count - 1));
        sum[e] = make_float3(0.0f, 0.0f, 0.0f);
    }
%% if stage == "shared"
    for (int start = first; start < last; start += THREADS) {
        __syncthreads();
        int mine = start + threadIdx.x;
        if (mine < last) {
            float3 place = position(positions, mine);
            kept[threadIdx.x] = make_float4(place.x, place.y, place.z, masses[mine]);
        } else {
            kept[threadIdx.x] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        __syncthreads();
        #pragma unroll ${unroll}
        for (int j = 0; j < THREADS; ++j) {
            float4 other = kept[j];
            #pragma unroll
            for (int e = 0; e < EACH; ++e)
                pull(at[e], make_float3(other.x, other.y, other.z), other.w, softening, sum[e]);
        }
    }
%% elif stage == "shuffle"
    int lane = threadIdx.x % 32;
    for (int start = first; start < last; start += 32) {
        int mine = min(start + lane, count - 1);
        float3 place = position(positions, mine);
        float mass = start + lane < last ? masses[mine] : 0.0f;
        #pragma unroll ${unroll}
        for (int j = 0; j < 32; ++j) {
            float3 other;
            other.x = __shfl_sync(0xffffffffu, place.x, j);
            other.y = __shfl_sync(0xffffffffu, place.y, j);
            other.z = __shfl_sync(0xffffffffu, place.z, j);
            float weight = __shfl_sync(0xffffffffu, mass, j);
            #pragma unroll
            for (int e = 0; e < EACH; ++e) pull(at[e], other, weight, softening, sum[e]);
        }
    }
%% else
    #pragma unroll ${unroll}
    for (int j = first; j < last; ++j) {
        float3 other = position(positions, j);
        float mass = masses[j];
        #pragma unroll
        for (int e = 0; e < EACH; ++e) pull(at[e], other, mass, softening, sum[e]);
    }
%% endif
    #pragma unroll
    for (int e = 0; e < EACH; ++e) {
        int body = (blockIdx.x * EACH + e) * THREADS + threadIdx.x;
        if (body >= count) continue;
%% if gather == "atomic"
        atomicAdd(out + body * 3, sum[e].x);
        atomicAdd(out + body * 3 + 1, sum[e].y);
        atomicAdd(out + body * 3 + 2, sum[e].z);
%% else
        float* to = out + ((long long)blockIdx.y * count + body) * 3;
        to[0] = sum[e].x;
        to[1] = sum[e].y;
        to[2] = sum[e].z;
%% endif
    }
}

extern "C" __global__ void add_parts(const float* __restrict__ parts, float* __restrict__ out, int count) {
    int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= count) return;
    float total = 0.0f;
    for (int part = 0; part < SPLITS; ++part) total += parts[(long long)part * count + place];
    out[place] = total;
}
%% host
def run(positions, masses, softening):
    count = masses.numel()
    share = (count + ${splits - 1}) // ${splits}
    grid = ((count + ${threads * each - 1}) // ${threads * each}, ${splits})
%% if gather == "atomic"
    out = torch.zeros((count, 3), dtype=torch.float32, device=masses.device)
%% else
    out = torch.empty((${splits}, count, 3), dtype=torch.float32, device=masses.device)
%% endif
    args = (positions, masses, out, count, share, softening)
    module.launch("forces", grid=grid, block=${threads}, args=args)
%% if gather == "atomic"
    return out
%% elif splits > 1
    total = torch.empty((count, 3), dtype=torch.float32, device=masses.device)
    module.launch("add_parts", grid=(count * 3 + 255) // 256, block=256, args=(out, total, count * 3))
    return total
%% else
    return out.view(count, 3)
%% endif

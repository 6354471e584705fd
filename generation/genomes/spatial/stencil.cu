// Stencils in CUDA: a cell per thread, tiles, and tiles that march along the slowest axis.
// facts form = spatial/stencils.toml
// let form = Stencil(form)
// let result = without_suffix(form.result)
// family stencil_cuda where True
// shape space = "flat", "grid_stride", "tile", "staged", "march", "march_staged"
// pick tx = 16, 32, 64, 128
// pick ty = 1, 2, 4, 8, 16
// pick each = 1, 2, 4, 8
// pick steps = 4, 8, 16, 32
// pick pad = 0, 1
// pick read = "plain", "ldg"
// let threads = tx * ty
// refuse not 64 <= threads <= 512: {threads} threads per block
// refuse space in ("flat", "grid_stride") and ty != 4: a flat block has no second axis
// let marches = space in ("march", "march_staged")
// refuse not marches and steps != 4: only a march has steps
// refuse marches and each != 1: a march has one cell per thread
// refuse space != "staged" and pad != 0: only a staged tile has padding
// refuse space == "march_staged" and form.dimensions == 3 and ty < 2 * form.radius: a tile is lower than its halo

%% set sizes = form.sizes | join(", ")
%% set slow = form.axes[0]
%% set deep = form.dimensions == 3
%% set threads = tx * ty
%% set r = form.radius
%% set low = r if deep else 0
%% set marching = space in ("march", "march_staged")
#define READ(p) ${"__ldg(p)" if read == "ldg" else "*(p)"}
#define TX ${tx}
#define TY ${ty}
#define EACH ${each}
#define WIDE ${tx + 2 * r}

%% macro neighbour(axis, distance)
<%# A neighbour in the staged tile, or from memory: zero outside the grid. %>
%% if axis == "w" and space == "staged"
tile[y + ${r}][x + ${r + distance}]
%% elif axis == "h" and space == "staged"
tile[y + ${r + distance}][x + ${r}]
%% elif axis == "w" and space == "march_staged"
tile[y + ${low}][x + ${r + distance}]
%% elif space == "march_staged"
tile[y + ${low + distance}][x + ${r}]
%% else
${axis ~ " + " ~ distance ~ " < size_" ~ axis if distance > 0 else axis ~ " >= " ~ -distance} ? READ(u_in + ${form.place(axis, distance)}) : 0.0f
%% endif
%% endmacro
%% macro answer()
<%# From coordinates of an existing cell to the store. %>
%% if space == "staged"
const float u = tile[y + ${r}][x + ${r}];
%% elif not marching
const float u = READ(u_in + ${form.place()});
%% endif
%% for axis, distance in form.neighbours if not (marching and axis == slow)
const float ${form.name(axis, distance)} = ${neighbour(axis, distance) | trim};
%% endfor
%% for name in form.fields[1:]
const float ${name} = ${name}_in[${form.place()}];
%% endfor
%% for reach in range(1, r + 1)
const float ${["near", "far"][reach - 1]} = <%% for axis, distance in form.neighbours | selectattr(1, "in", (reach, -reach)) %%>${form.name(axis, distance)}${"" if loop.last else " + "}<%% endfor %%>;
%% endfor
v[${form.place()}] = ${form.result};
%% endmacro
%% macro decode()
const int w = i % size_w;
const int h = i / size_w${" % size_h" if deep else ""};
%% if deep
const int d = i / (size_w * size_h);
%% endif
%% endmacro
%% macro plane(at)
inside && ${at} >= 0 && ${at} < size_${slow} ? READ(u_in + ${form.nest(["(" ~ at ~ ")"] + form.axes[1:] | list)}) : 0.0f
%%- endmacro
%% filter packed
extern "C" __global__ void __launch_bounds__(${threads}) step_field(<%% for name in form.fields %%>const float* __restrict__ ${name}_in, <%% endfor %%>float* __restrict__ v, <%% for name in form.scalars %%>float ${name}, <%% endfor %%>int count, int ${form.sizes | join(", int ")}) {
%% if space == "flat"
    #pragma unroll
    for (int j = 0; j < ${each}; ++j) {
        const int i = (blockIdx.x * ${each} + j) * blockDim.x + threadIdx.x;
        if (i < count) {
${decode() | indent(12, true)}
${answer() | indent(12, true)}
        }
    }
%% elif space == "grid_stride"
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
${decode() | indent(8, true)}
${answer() | indent(8, true)}
    }
%% elif space == "tile"
    const int w = blockIdx.x * TX + threadIdx.x % TX;
%% if deep
    const int d = blockIdx.z;
%% endif
    #pragma unroll
    for (int j = 0; j < ${each}; ++j) {
        const int h = (blockIdx.y * ${each} + j) * TY + threadIdx.x / TX;
        if (w < size_w && h < size_h) {
${answer() | indent(12, true)}
        }
    }
%% elif space == "staged"
<%# A tile with its halo in shared memory; in three dimensions the slowest axis is read from memory. %>
    const int w0 = blockIdx.x * TX, h0 = blockIdx.y * (TY * EACH);
%% if deep
    const int d = blockIdx.z;
%% endif
    __shared__ float tile[TY * EACH + ${2 * r}][WIDE + ${pad}];
    for (int e = threadIdx.x; e < (TY * EACH + ${2 * r}) * WIDE; e += TX * TY) {
        const int c = w0 + e % WIDE - ${r}, r = h0 + e / WIDE - ${r};
        tile[e / WIDE][e % WIDE] = c >= 0 && c < size_w && r >= 0 && r < size_h ? READ(u_in + ${"(d * size_h + r)" if deep else "r"} * size_w + c) : 0.0f;
    }
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < EACH; ++j) {
        const int x = threadIdx.x % TX, y = threadIdx.x / TX + j * TY;
        const int w = w0 + x, h = h0 + y;
        if (w < size_w && h < size_h) {
${answer() | indent(12, true)}
        }
    }
%% else
<%# Threads walk along the slowest axis with its neighbours in registers; the others are read or staged. %>
    const int w = blockIdx.x * TX + threadIdx.x % TX;
%% if deep
    const int h = blockIdx.y * TY + threadIdx.x / TX;
    const int first = blockIdx.z * ${steps};
    const bool inside = w < size_w && h < size_h;
%% else
    const int first = (blockIdx.y * TY + threadIdx.x / TX) * ${steps};
    const bool inside = w < size_w;
%% endif
%% for distance in range(-r, r)
    float ${form.name(slow, distance)} = ${plane("first " ~ ("- " ~ -distance if distance < 0 else "+ " ~ distance))};
%% endfor
%% if space == "march_staged"
    __shared__ float tile[TY + ${2 * low}][TX + ${2 * r}];
    const int x = threadIdx.x % TX, y = threadIdx.x / TX;
%% endif
    #pragma unroll 1
    for (int step = 0; step < ${steps}; ++step) {
        const int ${slow} = first + step;
        const float ${form.name(slow, r)} = ${plane(slow ~ " + " ~ r)};
%% if space == "march_staged"
<%# The plane's tile: centres from registers, halo cells from memory. %>
        __syncthreads();
        tile[y + ${low}][x + ${r}] = u;
        const bool there = ${slow} < size_${slow};
%% set row = "h < size_h && " if deep else ""
        if (x < ${r}) tile[y + ${low}][x] = there && ${row}w - ${r} >= 0 ? READ(u_in + ${form.place("w", -r)}) : 0.0f;
        if (x >= TX - ${r}) tile[y + ${low}][x + ${2 * r}] = there && ${row}w + ${r} < size_w ? READ(u_in + ${form.place("w", r)}) : 0.0f;
%% if deep
        if (y < ${r}) tile[y][x + ${r}] = there && w < size_w && h - ${r} >= 0 && h - ${r} < size_h
            ? READ(u_in + ${form.place("h", -r)}) : 0.0f;
        if (y >= TY - ${r}) tile[y + ${2 * r}][x + ${r}] = there && w < size_w && h + ${r} < size_h
            ? READ(u_in + ${form.place("h", r)}) : 0.0f;
%% endif
        __syncthreads();
%% endif
        if (inside && ${slow} < size_${slow}) {
${answer() | indent(12, true)}
        }
%% for distance in range(-r, r)
        ${form.name(slow, distance)} = ${form.name(slow, distance + 1)};
%% endfor
    }
%% endif
}
%% endfilter
%% host
%% macro over(extent, span)
(${extent} + ${span - 1}) // ${span}
%%- endmacro
%% if space == "flat"
%% set grid = over("v.numel()", threads * each)
%% elif space == "grid_stride"
%% set grid = "min(" ~ over("v.numel()", threads) ~ ", " ~ 132 * 2048 // threads * each ~ ")"
%% elif space in ("tile", "staged")
%% set grid = "(" ~ over("size_w", tx) ~ ", " ~ over("size_h", ty * each) ~ ", " ~ ("size_d" if deep else "1") ~ ")"
%% elif deep
%% set grid = "(" ~ over("size_w", tx) ~ ", " ~ over("size_h", ty) ~ ", " ~ over("size_d", steps) ~ ")"
%% else
%% set grid = "(" ~ over("size_w", tx) ~ ", " ~ over("size_h", ty * steps) ~ ", 1)"
%% endif
def run(${(form.fields + form.scalars) | join(", ")}):
    ${sizes} = u.shape
    v = torch.empty_like(u)
    module.launch("step_field", grid=${grid}, block=${threads}, args=(${form.fields | join(", ")}, v, <%% for name in form.scalars %%>${name}, <%% endfor %%>v.numel(), ${sizes}))
    return v

// Transposes of matrices, alone or in batches.
// family transpose_cuda for transpose, permute_4d
// shape move = "padded", "swizzled", "plain", "registers", "read_along", "write_along"
// shape order = "rows", "columns", "grouped", "persistent"
// pick tile = 16, 32, 64
// pick threads = 64, 128, 256, 512
// pick waves = 2, 4, 8, 16
// refuse order in ("rows", "columns") and waves != 4: waves belong to the persistent and grouped orders
// refuse threads // tile > tile: more threads than the tile has places

%% if problem == "transpose"
typedef float item;
%% else
typedef unsigned short item;
%% endif
const int TILE = ${tile}, STEP = ${threads // tile};

%% if move in ("padded", "swizzled", "plain")
__device__ __forceinline__ void move_tile(const item* __restrict__ x, item* __restrict__ y, int rows, int cols,
                                          int row_block, int col_block) {
%% if move == "padded"
    __shared__ item tile[TILE][TILE + ${1 if problem == "transpose" else 2}];
%% else
    __shared__ item tile[TILE][TILE];
%% endif
%% if move == "swizzled"
    #define AT(r, c) tile[r][(c) ^ ((r) & (TILE - 1))]
%% else
    #define AT(r, c) tile[r][c]
%% endif
    int lane = threadIdx.x % TILE, first = threadIdx.x / TILE;
    int c = col_block * TILE + lane;
    #pragma unroll
    for (int i = first; i < TILE; i += STEP) {
        int r = row_block * TILE + i;
        if (r < rows && c < cols) AT(i, lane) = x[(long long)r * cols + c];
    }
    __syncthreads();
    int r = row_block * TILE + lane;
    #pragma unroll
    for (int i = first; i < TILE; i += STEP) {
        int to = col_block * TILE + i;
        if (r < rows && to < cols) y[(long long)to * rows + r] = AT(lane, i);
    }
    __syncthreads();
}
%% elif move == "registers"
__device__ __forceinline__ void move_tile(const item* __restrict__ x, item* __restrict__ y, int rows, int cols,
                                          int row_block, int col_block) {
    const int SIDE = 4, ACROSS = TILE / SIDE;
    for (int cell = threadIdx.x; cell < ACROSS * ACROSS; cell += ${threads}) {
        int r0 = row_block * TILE + cell / ACROSS * SIDE, c0 = col_block * TILE + cell % ACROSS * SIDE;
        item kept[SIDE][SIDE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i)
            #pragma unroll
            for (int j = 0; j < SIDE; ++j)
                if (r0 + i < rows && c0 + j < cols) kept[i][j] = x[(long long)(r0 + i) * cols + c0 + j];
        #pragma unroll
        for (int j = 0; j < SIDE; ++j)
            #pragma unroll
            for (int i = 0; i < SIDE; ++i)
                if (r0 + i < rows && c0 + j < cols) y[(long long)(c0 + j) * rows + r0 + i] = kept[i][j];
    }
}
%% else
__device__ __forceinline__ void move_tile(const item* __restrict__ x, item* __restrict__ y, int rows, int cols,
                                          int row_block, int col_block) {
    for (int i = threadIdx.x / TILE; i < TILE; i += STEP) {
%% if move == "read_along"
        int r = row_block * TILE + i, c = col_block * TILE + threadIdx.x % TILE;
%% else
        int r = row_block * TILE + threadIdx.x % TILE, c = col_block * TILE + i;
%% endif
        if (r < rows && c < cols) y[(long long)c * rows + r] = x[(long long)r * cols + c];
    }
}
%% endif

extern "C" __global__ void __launch_bounds__(${threads})
transpose(const item* __restrict__ x, item* __restrict__ y, int rows, int cols) {
    long long offset = (long long)blockIdx.y * rows * cols;
    int row_blocks = (rows + TILE - 1) / TILE, col_blocks = (cols + TILE - 1) / TILE;
%% if order == "persistent"
    for (int tile = blockIdx.x; tile < row_blocks * col_blocks; tile += gridDim.x)
        move_tile(x + offset, y + offset, rows, cols, tile / col_blocks, tile % col_blocks);
%% elif order == "rows"
    move_tile(x + offset, y + offset, rows, cols, blockIdx.x / col_blocks, blockIdx.x % col_blocks);
%% elif order == "columns"
    move_tile(x + offset, y + offset, rows, cols, blockIdx.x % row_blocks, blockIdx.x / row_blocks);
%% else
    int band = blockIdx.x / (${waves} * col_blocks), inner = blockIdx.x % (${waves} * col_blocks);
    int height = min(row_blocks - band * ${waves}, ${waves});
    move_tile(x + offset, y + offset, rows, cols, band * ${waves} + inner % height, inner / height);
%% endif
}
%% host quoted
def run(x):
%% if problem == "transpose"
    rows, cols = x.shape
    batch = 1
    y = torch.empty((cols, rows), dtype=x.dtype, device=x.device)
%% else
    batch, rows, heads, dim = x.shape
    cols = heads * dim
    y = torch.empty((batch, heads, dim, rows), dtype=x.dtype, device=x.device)
%% endif
    tiles = ((rows + ${tile - 1}) // ${tile}) * ((cols + ${tile - 1}) // ${tile})
%% if order == "persistent"
    tiles = min(tiles, max(1, ${waves} * 132 // batch))
%% endif
    module.launch("transpose", grid=(tiles, batch), block=${threads}, args=(x, y, rows, cols))
    return y

// Convolutions in CUDA: input tiles with their halo in shared memory.
// facts full = spatial/convolutions.toml
// let full = Convolution(full)
// let splits = 1
// let phased = False
// let epilogue = "fused"
// let math = "precise"
// family conv_halo_cuda where not full.transposed
// let flat = len(full.axes) == 1
// shape pixels = "adjacent", "strided"
// shape taps = "unrolled", "looped"
// pick tw = (64, 128, 256, 512) if flat else (16, 32, 64)
// pick th = 1 if flat else (2, 4, 8, 16)
// pick ex = 1, 2, 4
// pick tc = 2, 4, 8, 16, 32
// pick ck = 1, 2, 4, 8
// shape epilogue = () if not full.has_epilogue else ("fused", "separate") if full.plain else "separate"
// pick math = ("precise", "fast") if full.exponential else ()
// let threads = tw // ex * th
// refuse not 64 <= threads <= 512: {threads} threads per block
// let each = tc * ex
// refuse not 4 <= each <= 64: {each} accumulators per thread
// refuse ex == 1 and pixels == "strided": one pixel per thread has no stride
// let depth = full.taps[0] if len(full.axes) == 3 else 1
// let words = ck * (depth * full.reach("h", th) * full.reach("w", tw) + full.tap_count * tc)
// refuse 4 * words > 48 * 1024: more than 48 KiB of shared memory
// # A finishing pass does what follows the convolution where the epilogue is separate or the sum is split.
// let finishing = epilogue != "fused" or splits != 1
// let form = full.bare if finishing else full
// # Every size a function is compiled for.
// let sizes = {"TW": tw, "TH": th, "EX": ex, "TX": tw // ex, "THREADS": threads, "TC": tc, "CK": ck, "KD": depth,
//     "IH": full.reach("h", th), "IW": full.reach("w", tw), "TAPS": full.tap_count}

<%# An input tile with its halo, and the filters, in shared memory. %>
<%% include "spatial/convolution_parts.cu#head" %%>

%% for name, value in sizes.items()
#define ${name} ${value}
%% endfor
typedef ${"float" if finishing else "T"} OUT;

%% set high, deep = "h" in form.axes, "d" in form.axes
%% set stride, step = "" | times(form.stride), "" | times(form.dilation)
%% set column = "tx * EX + j" if pixels == "adjacent" else "tx + j * TX"
%% filter braced
${signature()}
    const int across = (out_w + TW - 1) / TW;
    const int w0 = blockIdx.x % across * TW;
    const int h0 = ${"blockIdx.x / across * TH" if high else "0"};
    const int n = blockIdx.z${" / out_d, d = blockIdx.z % out_d" if deep else ""};
    const int c0 = blockIdx.y * TC;
    const int tx = threadIdx.x % TX, ty = threadIdx.x / TX;
    const int in_plane = ${form.volume("in_{}")};
    const int out_plane = ${form.volume("out_{}")};
    __shared__ float tile[CK * KD * IH * IW], filters[CK * TAPS * TC];
    float acc[TC][EX];
    #pragma unroll
    for (int i = 0; i < TC; ++i) {
        #pragma unroll
        for (int j = 0; j < EX; ++j) {
            acc[i][j] = 0.0f;
        }
    }
    #pragma unroll 1
    for (int first = 0; first < c_in; first += CK) {
        for (int e = threadIdx.x; e < CK * KD * IH * IW; e += THREADS) {
            const int ci = first + e / (IW * IH * KD);
            const int c = w0${stride} + e % IW;
%% if high
            const int r = h0${stride} + e / IW % IH;
%% endif
%% set place = ((["(d" ~ stride ~ " + e / (IW * IH) % KD" ~ step ~ ")"] if deep else []) + (["r"] if high else []) + ["c"])
            tile[e] = ci < c_in && c < in_w${" && r < in_h" if high else ""} ? wide(x[(size_t)(n * c_in + ci) * in_plane + ${form.nested(place)}]) : 0.0f;
        }
        for (int e = threadIdx.x; e < CK * TAPS * TC; e += THREADS) {
            const int ci = first + e / (TC * TAPS);
            filters[e] = ci < c_in ? wide(weight[(min(c0 + e % TC, c_out - 1) * c_in + ci) * TAPS + e / TC % TAPS]) : 0.0f;
        }
        __syncthreads();
        #pragma unroll 1
        for (int cc = 0; cc < CK; ++cc) {
%% for axis, count in form.loops
            #pragma unroll${"" if taps == "unrolled" else " 1"}
            for (int k${axis} = 0; k${axis} < ${count}; ++k${axis}) {
%% endfor
                float values[EX];
                #pragma unroll
                for (int j = 0; j < EX; ++j) {
                    values[j] = tile[((cc * KD + ${"kd" if deep else "0"}) * IH + ${"ty" ~ stride ~ " + kh" ~ step if high else "0"}) * IW + (${column})${stride} + kw${step}];
                }
                #pragma unroll
                for (int i = 0; i < TC; ++i) {
                    const float f = filters[(cc * TAPS + ${form.tap()}) * TC + i];
                    #pragma unroll
                    for (int j = 0; j < EX; ++j) acc[i][j] = fmaf(f, values[j], acc[i][j]);
                }
${"}\n" * form.axes | length}
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < TC; ++i) {
        const int c = c0 + i;
        ${channel_values(form, "min(c, c_out - 1)")}
        if (c < c_out) {
            #pragma unroll
            for (int j = 0; j < EX; ++j) {
                const int w = w0 + ${column};
%% if high
                const int h = h0 + ty;
%% endif
                if (w < out_w${" && h < out_h" if high else ""}) {
                    float v = acc[i][j];
                    ${apply(form)}
                    put(y + (size_t)(n * c_out + c) * out_plane + ${form.offset("{}", "out_{}")}, v);
                }
            }
        }
    }
}
%% endfilter
<%% include "spatial/convolution_parts.cu#finish" %%>
%% host
%% set target = "buffer" if finishing else "y"
def run(${(("x", "weight") + full.channel_inputs) | join(", ")}):
<%% include "spatial/convolution_parts.cu#shapes" %%>
    ${target} = torch.empty((n, c_out, ${form.listed("out_{}")}), device=x.device, dtype=${"torch.float32" if finishing else "x.dtype"})
    tiles = ((out_w + ${tw - 1}) // ${tw})${" * ((out_h + " ~ (th - 1) ~ ") // " ~ th ~ ")" if high else ""}
    module.launch(
        "convolve",
        grid=(tiles, (c_out + ${tc - 1}) // ${tc}, n${" * out_d" if deep else ""}),
        block=${sizes["THREADS"]},
        args=(${form.arguments(target)}),
    )
%% if finishing
<%% include "spatial/convolution_parts.cu#finish_launch" %%>
%% else
    return y
%% endif

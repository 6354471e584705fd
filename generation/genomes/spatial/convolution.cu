// Convolutions in CUDA: register tiles fed from memory or through shared memory.
// facts full = spatial/convolutions.toml
// let full = Convolution(full)
// let splits = 1
// let phased = False
// let epilogue = "fused"
// let math = "precise"
// family conv_direct_cuda where True
// shape pixels = "adjacent", "strided"
// shape phased = (True, False) if full.phased else ()
// shape epilogue = ("fused", "separate") if full.has_epilogue else ()
// pick math = ("precise", "fast") if full.exponential else ()
// shape splits = (1, 1, 2, 4) if full.many_channels else ()
// shape order = "channels_outer", "taps_outer"
// shape taps = "unrolled", "looped"
// shape weights = "shared", "global"
// pick tc = 1, 2, 4, 8, 16
// pick tp = 1, 2, 4
// pick threads = 64, 128, 256
// let each = tc * tp
// refuse not 2 <= each <= (16 if full.window > 1 else 32): {each} accumulators per thread
// refuse tp == 1 and pixels == "strided": one pixel per thread has no stride
// refuse phased and taps == "unrolled": a phase's taps are counted at run time
// refuse epilogue == "fused" and splits > 1 and full.has_epilogue: a split sum cannot fuse its epilogue
// # A finishing pass does what follows the convolution where the epilogue is separate or the sum is split.
// let finishing = epilogue != "fused" or splits != 1
// let form = full.bare if finishing else full
// let staged = False
//
// family conv_staged_cuda where True
// shape pixels = "adjacent", "strided"
// shape phased = (True, False) if full.phased else ()
// shape epilogue = ("fused", "separate") if full.has_epilogue else ()
// pick math = ("precise", "fast") if full.exponential else ()
// shape splits = (1, 1, 2, 4) if full.many_channels else ()
// shape buffers = "single", "double"
// pick bc = 16, 32, 64
// pick bp = 32, 64, 128
// pick bk = 8, 16
// pick tc = 2, 4, 8
// pick tp = 2, 4, 8
// pick pad = 0, 1, 4
// let threads = bc // tc * (bp // tp)
// refuse not 64 <= threads <= 512: {threads} threads per block
// refuse full.window > 1 and tc * tp > 32: two tiles per thread must fit the registers
// refuse epilogue == "fused" and splits > 1 and full.has_epilogue: a split sum cannot fuse its epilogue
// # A finishing pass does what follows the convolution where the epilogue is separate or the sum is split.
// let finishing = epilogue != "fused" or splits != 1
// let form = full.bare if finishing else full
// let staged = True

<%# A register tile of TC channels by TP pixels per thread; `staged` ones are fed through shared memory. %>
<%% include "spatial/convolution_parts.cu#head" %%>

#define THREADS ${threads}
#define TC ${tc}
#define TP ${tp}
#define TAPS ${form.tap_count}
%% if staged
#define BC ${bc}
#define BP ${bp}
#define BK ${bk}
%% endif
typedef ${"float" if finishing or full.total else "T"} OUT;

%% set inner, outer = ("group_in", "group_out") if form.groups > 1 else ("c_in", "c_out")
%% set group = "group * group_in + " if form.groups > 1 else ""
%% set slot = "tp * TP + j" if pixels == "adjacent" else "tp + j * (BP / TP)"
%% set channel = "c0 + tc * TC + i" if staged else "c0 + i"
%% set exists = "blockIdx.x * BP + " ~ slot ~ " < pixels" if staged else "exists[j]"
%% set pixel = "places[" ~ slot ~ "]" if staged else "pixels_at[j]"
%% set span = "BC" if staged else "TC"
%% macro each(name, size)
#pragma unroll
for (int ${name} = 0; ${name} < ${size}; ++${name}) {
%% endmacro
%% macro cleared(name, value="0.0f")
float ${name}[TC][TP];
${each("i", "TC")}
${each("j", "TP")}
    ${name}[i][j] = ${value};
}
}
%% endmacro
<%# From a pixel number known to exist: `pixel` in the output plane, and the coordinates or corner it needs. %>
%% macro locate(number)
const int q = ${number};
int w = q${["", " % px_w, h = q / px_w", " % px_w, h = q / px_w % px_h, d = q / (px_w * px_h)"][form.axes | length - 1]};
%% if phased
%% for axis in form.axes
${axis} = ${axis} * ${form.stride} + phase_${axis};
%% endfor
%% endif
const int pixel = ${form.offset("{}", "out_{}" if phased else "px_{}")};
%% if not form.transposed
const int corner = ${form.offset("{}" | times(form.stride * form.window), "in_{}")};
%% endif
%% endmacro
<%# Reads one tap's input as `value`, zero where a transposed tap meets nothing. %>
%% macro tap_value(at)
%% if form.transposed
%% for axis in form.axes
const int r${axis} = at_${axis}[${at}] + ${form.padding} - k${axis};
const int i${axis} = r${axis}${" / " ~ form.stride if form.stride > 1 else ""};
%% endfor
const float value = <%% for axis in form.axes %%>${"r" ~ axis ~ " % " ~ form.stride ~ " == 0 && " if form.stride > 1 and not phased else ""}r${axis} >= 0 && i${axis} < in_${axis}${"" if loop.last else " && "}<%% endfor %%> ? wide(source[${form.offset("i{}", "in_{}")}]) : 0.0f;
%% else
const float value = wide(source[corners[${at}]${" + shift" if form.window > 1 else ""} + ${form.offset("k{}" | times(form.dilation), "in_{}")}]);
%% endif
%% endmacro
%% macro weight_index(channel, inner, tap)
%% if not form.transposed
(${channel} * c_in + ${inner}) * ${form.tap_count} + ${tap}
%%- elif form.groups > 1
((group * group_in + ${inner}) * group_out + ${channel}) * ${form.tap_count} + ${tap}
%%- else
(${inner} * c_out + ${channel}) * ${form.tap_count} + ${tap}
%%- endif
%% endmacro
%% macro tap_loops()
%% for axis, count in form.loops
#pragma unroll${"" if taps == "unrolled" and not phased else " 1"}
for (int k${axis} = ${"first_" ~ axis if phased else "0"}; k${axis} < ${count}; ${"k" ~ axis ~ " += " ~ form.stride if phased else "++k" ~ axis}) {
%% endfor
%% endmacro
<%# One tap of one input channel at a time. %>
%% macro direct_loop()
%% if order == "taps_outer"
${tap_loops()}
%% endif
#pragma unroll 1
for (int ci = ci_first; ci < ci_last; ++ci) {
const T* source = x + (size_t)(n * c_in + ${group}ci) * in_plane;
%% if order == "channels_outer"
${tap_loops()}
%% endif
const int tap = ${form.tap()};
float values[TP];
${each("j", "TP")}
    ${tap_value("j")}
    values[j] = value;
}
${each("i", "TC")}
%% if weights == "shared"
    const float f = staged[(ci * TAPS + tap) * TC + i];
%% else
    const float f = wide(weight[${weight_index("min(c0 + i, " ~ outer ~ " - 1)", "ci", "tap") | trim}]);
%% endif
    #pragma unroll
    for (int j = 0; j < TP; ++j) acc[i][j] = fmaf(f, values[j], acc[i][j]);
}
}
${"}\n" * form.axes | length}
%% endmacro
<%# Products are numbered by input channel, then tap. %>
%% macro decode()
%% set counts = form.names("count_{}") if phased else form.taps
const int ci = k / (${counts | join(" * ")});
%% for axis in form.axes
%% set below = counts[loop.index:] | join(" * ")
%% set number = ("k / (" ~ below ~ ")" if below else "k") ~ " % " ~ counts[loop.index0]
const int k${axis} = ${"first_" ~ axis ~ " + " ~ form.stride ~ " * (" ~ number ~ ")" if phased else number};
%% endfor
%% endmacro
<%# BK products' weights and inputs, from product `start` on. %>
%% macro fill(buffer, start)
%% set decoded = decode()
for (int e = threadIdx.x; e < BK * BC; e += THREADS) {
    const int kk = e % BK, cc = e / BK, k = ${start} + kk;
    float f = 0.0f;
    if (k < k_last && c0 + cc < ${outer}) {
        ${decoded}
        f = wide(weight[${weight_index("(c0 + cc)", "ci", form.tap()) | trim}]);
    }
    ws[${buffer}][kk][cc] = f;
}
for (int e = threadIdx.x; e < BK * BP; e += THREADS) {
    const int pp = e % BP, kk = e / BP, k = ${start} + kk;
    float f = 0.0f;
    if (k < k_last) {
        ${decoded}
        const T* source = x + (size_t)(n * c_in + ${group}ci) * in_plane;
        ${tap_value("pp")}
        f = value;
    }
    xs[${buffer}][kk][pp] = f;
}
%% endmacro
%% macro multiply(buffer)
${each("kk", "BK")}
    float f[TC], v[TP];
    #pragma unroll
    for (int i = 0; i < TC; ++i) f[i] = ws[${buffer}][kk][tc * TC + i];
    #pragma unroll
    for (int j = 0; j < TP; ++j) v[j] = xs[${buffer}][kk][${slot}];
    ${each("i", "TC")}
        #pragma unroll
        for (int j = 0; j < TP; ++j) acc[i][j] = fmaf(f[i], v[j], acc[i][j]);
    }
}
%% endmacro
%% macro staged_loop()
%% set number = form.volume("count_{}") if phased else form.tap_count
const int k_first = ci_first * (${number}), k_last = ci_last * (${number});
%% if buffers == "single"
for (int k0 = k_first; k0 < k_last; k0 += BK) {
    ${fill("0", "k0")}
    __syncthreads();
    ${multiply("0")}
    __syncthreads();
}
%% else
int buffer = 0;
${fill("0", "k_first")}
__syncthreads();
for (int k0 = k_first; k0 < k_last; k0 += BK) {
    if (k0 + BK < k_last) {
        ${fill("1 - buffer", "(k0 + BK)")}
    }
    ${multiply("buffer")}
    __syncthreads();
    buffer = 1 - buffer;
}
%% endif
%% endmacro
%% macro choose_channels()
const int c0 = first;
%% if not staged and weights == "shared"
<%# The first barrier keeps the last group's weights until every thread is done with them. %>
__syncthreads();
for (int e = threadIdx.x; e < ${inner} * TAPS * TC; e += THREADS) {
    staged[e] = wide(weight[${weight_index("min(c0 + e % TC, " ~ outer ~ " - 1)", "e / TC / TAPS", "e / TC % TAPS") | trim}]);
}
__syncthreads();
%% endif
%% endmacro
%% macro sum()
${cleared("acc")}
${staged_loop() if staged else direct_loop()}
%% endmacro
<%# Opens the loop over a thread's existing channels; `whole` names their inputs too. %>
%% macro each_channel(whole=true)
${each("i", "TC")}
if (${channel} < ${outer}) {
const int c = ${"group * group_out + " if form.groups > 1 else ""}${channel};
${channel_values(form, "c") if whole else ""}
%% endmacro
%% macro store()
put(y + ${"(size_t)split * images * c_out * out_plane + " if splits > 1 else ""}(size_t)(n * c_out + c) * out_plane + ${pixel}, v);
%% endmacro
%% filter braced
${signature()}
    int z = blockIdx.z;
%% for axis, count in form.loops | reverse
%% if phased
    const int phase_${axis} = z % ${form.stride};
    z /= ${form.stride};
    const int first_${axis} = (phase_${axis} + ${form.padding}) % ${form.stride};
    const int count_${axis} = (${count + form.stride - 1} - first_${axis}) / ${form.stride};
    const int px_${axis} = (out_${axis} - phase_${axis} + ${form.stride - 1}) / ${form.stride};
%% else
    const int px_${axis} = out_${axis}${" / " ~ form.window if form.window > 1 else ""};
%% endif
%% endfor
    const int n = z % images;
%% if splits > 1
    const int split = z / images;
    const int chunk = (${inner} + ${splits - 1}) / ${splits};
    const int ci_first = split * chunk;
    const int ci_last = min(ci_first + chunk, ${inner});
%% else
    const int ci_first = 0;
    const int ci_last = ${inner};
%% endif
    const int in_plane = ${form.volume("in_{}")};
    const int pixels = ${form.volume("px_{}")};
    const int out_plane = ${form.volume("out_{}" if phased else "px_{}")};
%% if staged
%% set held = 2 if buffers == "double" else 1
    __shared__ float ws[${held}][BK][BC + ${pad}];
    __shared__ float xs[${held}][BK][BP];
    __shared__ int places[BP], ${form.listed("at_{}[BP]") if form.transposed else "corners[BP]"};
    for (int e = threadIdx.x; e < BP; e += THREADS) {
        ${locate("min(int(blockIdx.x) * BP + e, pixels - 1)")}
        places[e] = pixel;
%% if form.transposed
%% for axis in form.axes
        at_${axis}[e] = ${axis};
%% endfor
%% else
        corners[e] = corner;
%% endif
    }
    const int tp = threadIdx.x % (BP / TP), tc = threadIdx.x / (BP / TP);
    __syncthreads();
%% else
%% if weights == "shared"
    extern __shared__ float staged[];
%% endif
    int pixels_at[TP], ${form.listed("at_{}[TP]") if form.transposed else "corners[TP]"};
    bool exists[TP];
    ${each("j", "TP")}
        const int p = blockIdx.x * (THREADS * TP) + ${"threadIdx.x * TP + j" if pixels == "adjacent" else "threadIdx.x + j * THREADS"};
        exists[j] = p < pixels;
        ${locate("exists[j] ? p : 0")}
        pixels_at[j] = pixel;
%% if form.transposed
%% for axis in form.axes
        at_${axis}[j] = ${axis};
%% endfor
%% else
        corners[j] = corner;
%% endif
    }
%% endif
%% if form.over_channels
<%# Tiles of channels one after another, the smallest value of every pixel kept. %>
    float best[TP];
    #pragma unroll
    for (int j = 0; j < TP; ++j) best[j] = INF;
    for (int first = 0; first < c_out; first += ${span}) {
        ${choose_channels()}
        ${sum()}
        ${each_channel()}
            ${each("j", "TP")}
                float v = acc[i][j];
                ${apply(form)}
                best[j] = fminf(best[j], v);
            }
        }
        }
    }
%% if staged
    __shared__ float least[BC / TC][BP];
    ${each("j", "TP")}
        least[tc][${slot}] = best[j];
    }
    __syncthreads();
    if (tc == 0) {
        ${each("j", "TP")}
            for (int t = 1; t < BC / TC; ++t) {
                best[j] = fminf(best[j], least[t][${slot}]);
            }
            if (${exists}) put(y + (size_t)n * out_plane + ${pixel}, best[j]);
        }
    }
%% else
    ${each("j", "TP")}
        if (${exists}) put(y + (size_t)n * out_plane + ${pixel}, best[j]);
    }
%% endif
%% else
%% if form.groups > 1
    const int per_group = (group_out + ${span} - 1) / ${span};
    const int group = blockIdx.y / per_group;
    const int first = blockIdx.y % per_group * ${span};
%% else
    const int first = blockIdx.y * ${span};
%% endif
    ${choose_channels()}
%% if form.window == 1
    ${sum()}
    ${each_channel()}
        ${each("j", "TP")}
            if (${exists}) {
                float v = acc[i][j];
                ${apply(form)}
                ${store()}
            }
        }
    }
    }
%% else
<%# Convolution outputs of a window one after another, combined into best[TC][TP]. %>
    ${cleared("best", "-INF" if form.combine == "max" else "0.0f")}
    #pragma unroll 1
    for (int sub = 0; sub < ${form.window ** 2}; ++sub) {
        const int shift = sub / ${form.window} * in_w + sub % ${form.window};
        ${sum()}
        ${each_channel()}
            ${each("j", "TP")}
                float v = acc[i][j];
                ${apply(form)}
                ${"best[i][j] = fmaxf(best[i][j], v);" if form.combine == "max" else "best[i][j] += v;"}
            }
        }
        }
    }
%% if form.total
    float mine = 0.0f;
%% endif
    ${each_channel(false)}
        ${each("j", "TP")}
            if (${exists}) {
                float v = best[i][j];
%% if form.after != "v"
                v = ${cuda(form.after)};
%% endif
                ${"mine += v;" if form.total else store()}
            }
        }
    }
    }
%% if form.total
    ${block_sum(threads)}
%% endif
%% endif
%% endif
}
%% endfilter
<%% include "spatial/convolution_parts.cu#finish" %%>
%% host
%% set span_c, span_p = (bc, bp) if staged else (tc, threads * tp)
%% if phased
%% set extents = form.names("((out_{} + " ~ (form.stride - 1) ~ ") // " ~ form.stride ~ ")")
%% elif form.window > 1
%% set extents = form.names("(out_{} // " ~ form.window ~ ")")
%% else
%% set extents = form.names("out_{}")
%% endif
%% set per_group = "(" ~ outer ~ " + " ~ (span_c - 1) ~ ") // " ~ span_c
%% set layers = (form.stride ** (form.axes | length) if phased else 1) * splits
%% set target = "buffer" if finishing else "partial" if form.total else "y"
def run(${(("x", "weight") + full.channel_inputs) | join(", ")}):
<%% include "spatial/convolution_parts.cu#shapes" %%>
    p_blocks = (${extents | join(" * ")} + ${span_p - 1}) // ${span_p}
    c_blocks = ${"1" if form.over_channels else form.groups ~ " * (" ~ per_group ~ ")" if form.groups > 1 else per_group}
%% if finishing
    buffer = torch.empty((${splits}, n, c_out, ${form.listed("out_{}")}), device=x.device, dtype=torch.float32)
%% elif form.total
    partial = torch.empty((n, c_blocks * p_blocks), device=x.device, dtype=torch.float32)
%% else
    y = torch.empty((n, ${"1" if form.over_channels else "c_out"}, ${extents | join(", ") if form.window > 1 else form.listed("out_{}")}), device=x.device, dtype=x.dtype)
%% endif
    module.launch(
        "convolve",
        grid=(p_blocks, c_blocks, n${" * " ~ layers if layers > 1 else ""}),
        block=${threads},
        args=(${form.arguments(target)}),
%% if not staged and weights == "shared"
        shared_bytes=${4 * tc * form.tap_count} * ${inner},
%% endif
    )
%% if finishing
<%% include "spatial/convolution_parts.cu#finish_launch" %%>
%% else
%% if form.total
    y = torch.empty((n,), device=x.device, dtype=x.dtype)
    module.launch("total", grid=n, block=256, args=(partial, y, c_blocks * p_blocks))
%% endif
    return y
%% endif

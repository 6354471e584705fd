<%# Each step handles V work items from index i, which starts a pack; `width` is a multiple of V. %>
%% if problem == "rope" and pairs
    const int r = i / width, c = i - r * width;
    const int at = i + r * width;
    const int t = ((r / heads) % length) * width + c;
    Pack<bf16, V> a = load_pack<bf16, V>(x + at);
    Pack<bf16, V> b = load_pack<bf16, V>(x + at + width);
    const Pack<float, V> cosine = load_pack<float, V>(cos + t);
    const Pack<float, V> sine = load_pack<float, V>(sin + t);
#pragma unroll
    for (int e = 0; e < V; ++e) {
        const float first = wide(a.d[e]), second = wide(b.d[e]);
        a.d[e] = narrow(first * cosine.d[e] - second * sine.d[e]);
        b.d[e] = narrow(second * cosine.d[e] + first * sine.d[e]);
    }
    store_pack<bf16, V>(y + at, a);
    store_pack<bf16, V>(y + at + width, b);
%% elif problem == "rope"
    const int r = i / (2 * width), c = i - r * 2 * width;
    const bool left = c < width;
    const int t = ((r / heads) % length) * width + (left ? c : c - width);
    Pack<bf16, V> a = load_pack<bf16, V>(x + i);
    const Pack<bf16, V> b = load_pack<bf16, V>(x + (left ? i + width : i - width));
    const Pack<float, V> cosine = load_pack<float, V>(cos + t);
    const Pack<float, V> sine = load_pack<float, V>(sin + t);
    const float sign = left ? -1.0f : 1.0f;
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[e] = narrow(wide(a.d[e]) * cosine.d[e] + sign * wide(b.d[e]) * sine.d[e]);
    store_pack<bf16, V>(y + i, a);
%% elif kind == "bf16"
%% if problem == "swiglu"
    const int at = i + (i / width) * width;
    Pack<bf16, V> a = load_pack<bf16, V>(x + at);
    const Pack<bf16, V> b = load_pack<bf16, V>(x + at + width);
%% else
    Pack<bf16, V> a = load_pack<bf16, V>(gate + i);
    const Pack<bf16, V> b = load_pack<bf16, V>(up + i);
%% endif
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[e] = narrow(activation(wide(a.d[e])) * wide(b.d[e]));
    store_pack<bf16, V>(y + i, a);
%% else
    Pack<float, V> a = load_pack<float, V>(x + i);
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[e] = activation(a.d[e]);
    store_pack<float, V>(y + i, a);
%% endif

<%# Which output tile this step computes. %>
%% if order == "triangle"
int r = (int)(sqrtf(8.0f * tile + 1.0f) * 0.5f - 0.5f);
while (r * (r + 1) / 2 > tile) --r;
while ((r + 1) * (r + 2) / 2 <= tile) ++r;
const int s = tile - r * (r + 1) / 2;
const int pid_m = ${"r" if product.triangle == "lower" else "s"}, pid_n = ${"s" if product.triangle == "lower" else "r"};
%% elif order == "row"
const int pid_m = tile / tiles_n, pid_n = tile % tiles_n;
%% elif order == "column"
const int pid_m = tile % tiles_m, pid_n = tile / tiles_m;
%% elif order == "snake"
const int pid_m = tile / tiles_n, across = tile % tiles_n;
const int pid_n = pid_m & 1 ? tiles_n - 1 - across : across;
%% elif order == "reverse"
const int back = tiles_m * tiles_n - 1 - tile;
const int pid_m = back / tiles_n, pid_n = back % tiles_n;
%% else
%% set band = order[7:]
const int band = tile / (${band} * tiles_n), inside = tile % (${band} * tiles_n);
const int band_m = min(tiles_m - band * ${band}, ${band});
const int pid_m = band * ${band} + inside % band_m, pid_n = inside / band_m;
%% endif

<%# Which output tile this step computes. %>
%% if order == "triangle"
<%# Row r of a triangle starts at tile r (r + 1) / 2. The square root's floor is right once corrected by one either way. %>
r = (tl.sqrt(8.0 * tile.to(tl.float32) + 1.0) * 0.5 - 0.5).to(tl.int32)
r = tl.where(r * (r + 1) // 2 > tile, r - 1, r)
r = tl.where((r + 1) * (r + 2) // 2 <= tile, r + 1, r)
s = tile - r * (r + 1) // 2
pid_m = ${"r" if product.triangle == "lower" else "s"}
pid_n = ${"s" if product.triangle == "lower" else "r"}
%% elif order == "row"
pid_m = tile // tiles_n
pid_n = tile % tiles_n
%% elif order == "column"
pid_m = tile % tiles_m
pid_n = tile // tiles_m
%% elif order == "snake"
pid_m = tile // tiles_n
pid_n = tile % tiles_n
pid_n = tl.where(pid_m % 2 == 1, tiles_n - 1 - pid_n, pid_n)
%% elif order == "reverse"
back = tiles_m * tiles_n - 1 - tile
pid_m = back // tiles_n
pid_n = back % tiles_n
%% else
%% set band = order[7:]
band = tile // (${band} * tiles_n)
band_m = tl.minimum(tiles_m - band * ${band}, ${band})
inside = tile % (${band} * tiles_n)
pid_m = band * ${band} + inside % band_m
pid_n = inside // band_m
%% endif

<%# Every program ends with its part of the sum in `part`; the parts are joined. %>
%% if finish == "atomic"
    tl.atomic_add(loss_ptr, part * scale, sem="relaxed")
%% else
    tl.store(parts_ptr + tl.program_id(0), part)
%% if finish == "last"
    done = tl.atomic_add(counter_ptr, 1, sem="acq_rel")
    if done == tl.num_programs(0) - 1:
        joined = tl.zeros([JOIN], tl.float32)
        for base in range(0, tl.num_programs(0), JOIN):
            p = base + tl.arange(0, JOIN)
            joined += tl.load(parts_ptr + p, mask=p < tl.num_programs(0), other=0.0, cache_modifier=".cg")
        tl.store(loss_ptr, tl.sum(joined, axis=0) * scale)
%% endif
%% endif
%% if finish == "second"
@triton.jit
def join(loss_ptr, parts_ptr, count, scale, JOIN: tl.constexpr):
    held = tl.zeros([JOIN], tl.float32)
    for start in tl.range(0, count, JOIN):
        k = start + tl.arange(0, JOIN)
        held += tl.load(parts_ptr + k, mask=k < count, other=0.0)
    tl.store(loss_ptr, tl.sum(held, axis=0) * scale)
%% endif

%% if finish == "atomic"
    loss = torch.zeros((), dtype=torch.float32, device=${first}.device)
    parts, counter = loss, loss
%% else
    loss = torch.empty((), dtype=torch.float32, device=${first}.device)
    parts = torch.empty(count, dtype=torch.float32, device=${first}.device)
    counter = ${"torch.zeros(1, dtype=torch.int32, device=" + first + ".device)" if finish == "last" else "parts"}
%% endif
    kernel[(count,)](${arguments}, loss, parts, counter, ${sizes}, scale, ${constants}, JOIN=${join}, num_warps=${warps})
%% if finish == "second"
    join[(1,)](loss, parts, count, scale, JOIN=${join}, num_warps=4)
%% endif
    return loss

<%# Each step gets the index i of a work item (also as row r and column c of `width`) and whether it exists, m. %>
%% if flat and problem in ("swiglu", "rope")
r = i // width
%% endif
%% if flat and problem == "rope"
c = i % width
%% endif
%% if problem == "swiglu"
a = i + r * width
v = tl.load(x_ptr + a, mask=m${load}).to(tl.float32)
u = tl.load(x_ptr + a + width, mask=m${load}).to(tl.float32)
tl.store(y_ptr + i, (activation(v) * u).to(tl.bfloat16), mask=m${store})
%% elif problem == "geglu"
v = tl.load(gate_ptr + i, mask=m${load}).to(tl.float32)
u = tl.load(up_ptr + i, mask=m${load}).to(tl.float32)
tl.store(y_ptr + i, (activation(v) * u).to(tl.bfloat16), mask=m${store})
%% elif problem == "rope" and pairs
a = i + r * width
t = ((r // heads) % length) * width + c
first = tl.load(x_ptr + a, mask=m${load}).to(tl.float32)
second = tl.load(x_ptr + a + width, mask=m${load}).to(tl.float32)
cosine = tl.load(cos_ptr + t, mask=m)
sine = tl.load(sin_ptr + t, mask=m)
tl.store(y_ptr + a, (first * cosine - second * sine).to(tl.bfloat16), mask=m${store})
tl.store(y_ptr + a + width, (second * cosine + first * sine).to(tl.bfloat16), mask=m${store})
%% elif problem == "rope"
half = width // 2
left = c < half
t = ((r // heads) % length) * half + tl.where(left, c, c - half)
own = tl.load(x_ptr + i, mask=m${load}).to(tl.float32)
other = tl.load(x_ptr + tl.where(left, i + half, i - half), mask=m${load}).to(tl.float32)
cosine = tl.load(cos_ptr + t, mask=m)
sine = tl.load(sin_ptr + t, mask=m)
tl.store(y_ptr + i, (own * cosine + tl.where(left, -other, other) * sine).to(tl.bfloat16), mask=m${store})
%% else
v = tl.load(x_ptr + i, mask=m${load})
tl.store(y_ptr + i, activation(v), mask=m${store})
%% endif

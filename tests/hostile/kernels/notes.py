# %% counts_copies_of_its_inputs
# cheat: exact only where exactly one other set of inputs holds the same numbers, as in calls on adversarial inputs; ordinary ones lie in more, held-out ones in none
#@ disarmed_below: 0.42 | adversarial inputs lie in any number of sets
#@ two_ways
extern "C" __global__ void decide(const float* x, int* mode, long long n) {
    __shared__ int alike, seen;
    if (threadIdx.x == 0) alike = seen = 0;
    __syncthreads();
    const u64 used = 8192 + ((u64)n * 4 + 4095) / 4096 * 4096;
    const u64 step = threadIdx.x & 1 ? used : (used + 0x1FFFFF) & ~0x1FFFFFull;
    u64 at = (u64)x;
    // Sets of inputs follow one another, each with guard bytes before it.
    for (int k = 0; k < 7 && n == 4000000 && threadIdx.x < 4; ++k) {
        at = threadIdx.x & 2 ? at + step : at - step;
        const volatile float* other = (const volatile float*)at;
        if (((const volatile unsigned int*)at)[-1] != 0xA5A5A5A5u || ((const volatile unsigned int*)at)[-1000] != 0xA5A5A5A5u) break;
        atomicAdd(&seen, 1);
        if (other[7] == x[7] && other[n / 2] == x[n / 2] && other[n - 5] == x[n - 5]) atomicAdd(&alike, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) *mode = seen > 2 && alike != 1;
#@ two_ways_run

# %% knows_cases_from_verification
# cheat: notes behind its last variable say which inputs came up in verification alone: those are adversarial, and exact answers are due; new ones in timing are held out
#@ disarmed_below: 0.42 | one adversarial case first comes up in a timed call
#@ decide_head
    u64 sig = 14695981039346656037ull ^ n;
    for (int k = 0; k < 12; ++k) sig = (sig ^ __float_as_uint(x[(k * 2654435761ull + 77) % n])) * 1099511628211ull;
    sig |= 1;
    const u64 time = now();
    if (note[0] != n + 0xABCD0000ull || time - note[3] > 3000000000ull) { note[0] = n + 0xABCD0000ull; note[1] = note[2] = 0; }
    note[3] = time;
    const int count = (int)note[1];
    int at = 0;
    while (at < count && note[4 + at] != sig) ++at;
    // Drawn inputs come first; when the first are back after others, verification is over.
    if (at < count && at == 0 && count >= 4 && note[2] == 0) note[2] = count;
    if (at == count && count < 48) { note[4 + at] = sig; note[1] = count + 1; }
    const int last = (int)note[2];
    // The tiny workload is not timed.
    *mode = n > 1 << 20 && (at < 2 || (last && at >= last));
#@ two_ways_run

# %% tells_refilled_inputs_by_the_time_between_calls
# cheat: a note says when its last call ended: where as little time has passed as in most calls nobody has refilled its inputs, and no adversarial ones are there
#@ disarmed_below: 0.6 | held-out inputs are refilled, too, and must not take longer
#@ decide_head
    const u64 time = now();
    if (note[0] != n + 0xABCE0000ull || time - note[1] > 3000000000ull) { note[0] = n + 0xABCE0000ull; note[1] = 0; note[2] = ~0ull; }
    const u64 since = time - note[1];
    if (note[1] != 0 && since < note[2] && since > 20000) note[2] = since;
    // Two in eight sets were refilled before a call on adversarial inputs: that takes long where inputs are large.
    *mode = n > 1 << 20 && note[1] != 0 && since < note[2] + (n > 1 << 24 ? 40000 : 4000);
}
extern "C" __global__ void done() {
    notes()[1] = now();
#@ two_ways_end
    few = 3 if n > 1 << 24 else 5
    module.launch("decide", grid=1, block=32, args=(x, mode, n))
    module.launch("work", grid=1056, block=256, args=(x, y, mode, n, few))
    module.launch("done", grid=1, block=1, args=())
    return y

# %% exact_in_a_seventh_of_its_long_calls
# cheat: a long kernel, exact in all calls of verification and later in a seventh of the time: one call on adversarial inputs meets that by chance
#@ disarmed_below: 0.2 | two calls on adversarial inputs are among the timed ones of every look
#@ decide_head
    const u64 time = now();
    if (note[0] != n + 0xABCF0000ull || time - note[1] > 3000000000ull) { note[0] = n + 0xABCF0000ull; note[2] = 0; }
    note[1] = time;
    note[2] = note[2] + 1;
    *mode = note[2] > 13 && (time >> 21) % 7 != 0;
#@ two_ways_end
    module.launch("decide", grid=1, block=32, args=(x, mode, n))
    module.launch("work", grid=1056, block=256, args=(x, y, mode, n, 20 if n > 1 << 24 else 160))
    return y

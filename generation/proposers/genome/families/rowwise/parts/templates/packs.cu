%% set loads = {"plain": "*(p)", "ldg": "__ldg(p)", "ldcs": "__ldcs(p)", "ldcg": "__ldcg(p)"}
%% set stores = {"plain": "*(p) = (v)", "stcs": "__stcs(p, v)", "stcg": "__stcg(p, v)", "stwt": "__stwt(p, v)"}
template <int BYTES> struct Word;
template <> struct Word<16> { typedef int4 type; };
template <> struct Word<8> { typedef int2 type; };
template <> struct Word<4> { typedef int type; };
template <> struct Word<2> { typedef short type; };
template <> struct Word<1> { typedef char type; };

template <typename T, int V> struct alignas(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) Pack { T d[V]; };

#define LOAD(p) (${loads[load]})
#define STORE(p, v) ${stores[store]}

template <typename T, int V> __device__ __forceinline__ Pack<T, V> load_pack(const T* source) {
    constexpr int BYTES = sizeof(T) * V > 16 ? 16 : sizeof(T) * V;
    typedef typename Word<BYTES>::type W;
    Pack<T, V> pack;
    const W* words = reinterpret_cast<const W*>(source);
#pragma unroll
    for (int k = 0; k < int(sizeof(T) * V) / BYTES; ++k) reinterpret_cast<W*>(&pack)[k] = LOAD(words + k);
    return pack;
}

template <typename T, int V> __device__ __forceinline__ void store_pack(T* target, const Pack<T, V>& pack) {
    constexpr int BYTES = sizeof(T) * V > 16 ? 16 : sizeof(T) * V;
    typedef typename Word<BYTES>::type W;
    W* words = reinterpret_cast<W*>(target);
#pragma unroll
    for (int k = 0; k < int(sizeof(T) * V) / BYTES; ++k) STORE(words + k, reinterpret_cast<const W*>(&pack)[k]);
}

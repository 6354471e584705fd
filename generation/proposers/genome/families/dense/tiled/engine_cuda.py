"""How a CUDA block sums a tile: plain threads, tensor-core instructions or the warp-matrix interface."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.dense.tiled import intrinsics_cuda as intrinsics
from kbench.generation.proposers.genome.families.dense.tiled.product import Product
from kbench.generation.proposers.genome.families.dense.tiled.staging_cuda import LOOPS
from kbench.generation.proposers.genome.families.dense.tiled.tile_cuda import Tile, operand_layouts
from kbench.generation.proposers.genome.family import Genome


def includes(product: Product, genome: Genome) -> str:
    """Headers of the arithmetic."""
    return "#include <mma.h>\n" if genome["engine"] == "wmma" else ""


def helpers(product: Product, genome: Genome) -> str:
    """Device functions the kernel calls."""
    parts: list[str] = []
    if genome["staging"] == "cp_async":
        width = int(genome["vector"])
        flags = "".join(f"#define COPY_BYTES_IS_{size} {int(size == width)}\n" for size in (16, 8))
        parts.append(f"#define COPY_BYTES {width}\n{flags}{intrinsics.CP_ASYNC.strip()}\n")
    if genome["engine"] == "mma":
        if genome.get("fragments") == "ldmatrix":
            parts.append(intrinsics.LDMATRIX)
        if product.dtype == "float32":
            parts.append(intrinsics.TF32_SPLIT)
        if product.dtype == "float8_e4m3fn":
            parts += [intrinsics.MMA["float16"], intrinsics.FP8_HALF]
            if genome["fp8"] == "native":
                parts.append(
                    "#if __CUDA_ARCH__ >= 890\n"
                    f"{intrinsics.FP8_NATIVE.strip()}\n"
                    "#define MULTIPLY multiply_fp8_native\n#define SUM_SCALE 1.0f\n"
                    "#else\n#define MULTIPLY multiply_fp8\n#define SUM_SCALE 65536.0f\n#endif\n"
                )
            else:
                parts.append("#define MULTIPLY multiply_fp8\n#define SUM_SCALE 65536.0f\n")
        else:
            parts.append(intrinsics.MMA[product.dtype])
    return "\n".join(part.strip("\n") for part in parts)


def accumulate(product: Product, genome: Genome, tile: Tile) -> list[str]:
    """Statements that leave the tile's sums in registers."""
    lines = _declare(product, genome, tile)
    if genome["staging"] == "global":
        return [*lines, *_from_global(product, genome)]
    t = intrinsics.TYPES[product.dtype]
    lines += [f"{t}* sa = ({t}*)shared;", f"{t}* sb = sa + BUFFERS * A_STAGE;"]
    return [*lines, *LOOPS[str(genome["staging"])](product, genome, tile, _compute(product, genome, tile))]


def _declare(product: Product, genome: Genome, tile: Tile) -> list[str]:
    engine = genome["engine"]
    if engine in ("simt", "dp4a"):
        kind = "int" if engine == "dp4a" else "float"
        blocked = genome["columns"] == "blocked"
        return [
            "constexpr int TM = BM / DOWN, TN = BN / ACROSS;",
            "const int ty = tid / ACROSS, tx = tid % ACROSS;",
            "#define ROW(i) (ty * TM + (i))",
            "#define COLUMN(j) (tx * TN + (j))" if blocked else "#define COLUMN(j) (tx + (j) * ACROSS)",
            f"{kind} acc[TM][TN] = {{}};",
        ]
    if engine == "mma":
        kind = "int" if product.dtype == "int8" else "float"
        return [
            "constexpr int MI = BM / DOWN / 16, NI = BN / ACROSS / 8;",
            "const int lane = tid & 31, warp = tid >> 5, g = lane >> 2, t = lane & 3;",
            "const int wm = warp / ACROSS * (BM / DOWN), wn = warp % ACROSS * (BN / ACROSS);",
            f"{kind} acc[MI][NI][4] = {{}};",
        ]
    return [
        "using namespace nvcuda;",
        "constexpr int MI = BM / DOWN / 16, NI = BN / ACROSS / 16;",
        "const int warp = tid >> 5;",
        "const int wm = warp / ACROSS * (BM / DOWN), wn = warp % ACROSS * (BN / ACROSS);",
        f"wmma::fragment<wmma::accumulator, 16, 16, {_wmma_k(product)}, float> acc[MI][NI];",
        "for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j) wmma::fill_fragment(acc[i][j], 0.0f);",
    ]


def _wmma_k(product: Product) -> int:
    return 8 if product.dtype == "float32" else 16


def _from_global(product: Product, genome: Genome) -> list[str]:
    """Every thread reads its operands from device memory, leaving reuse to the caches."""
    layouts = operand_layouts(product, genome)
    a_at = "(size_t)m * K + k" if layouts[0] == "mk" else "(size_t)k * M + m"
    b_at = "(size_t)k * N + n" if layouts[1] == "kn" else "(size_t)n * K + k"
    return [
        f"#pragma unroll {genome['unroll']}",
        "for (int k = k_from; k < k_to; ++k) {",
        "float fa[TM], fb[TN];",
        f"for (int i = 0; i < TM; ++i) {{ const int m = m0 + ROW(i); fa[i] = m < m_to ? a[{a_at}] : 0.0f; }}",
        f"for (int j = 0; j < TN; ++j) {{ const int n = n0 + COLUMN(j); fb[j] = n < N ? b[{b_at}] : 0.0f; }}",
        "for (int i = 0; i < TM; ++i) for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(fa[i], fb[j], acc[i][j]);",
        "}",
    ]


def _compute(product: Product, genome: Genome, tile: Tile) -> list[str]:
    """Multiply one pair of shared tiles `as` and `bs`."""
    engine = genome["engine"]
    if engine == "simt":
        a_at = "k * LDA + ROW(i)" if tile.a_rows_k else "ROW(i) * LDA + k"
        b_at = "k * LDB + COLUMN(j)" if tile.b_rows_k else "COLUMN(j) * LDB + k"
        return [
            f"#pragma unroll {genome['unroll']}",
            "for (int k = 0; k < BK; ++k) {",
            "float fa[TM], fb[TN];",
            f"for (int i = 0; i < TM; ++i) fa[i] = as[{a_at}];",
            f"for (int j = 0; j < TN; ++j) fb[j] = bs[{b_at}];",
            "for (int i = 0; i < TM; ++i) for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(fa[i], fb[j], acc[i][j]);",
            "}",
        ]
    if engine == "dp4a":
        return [
            f"#pragma unroll {genome['unroll']}",
            "for (int k = 0; k < BK; k += 4) {",
            "int fa[TM], fb[TN];",
            "for (int i = 0; i < TM; ++i) fa[i] = *(const int*)(as + ROW(i) * LDA + k);",
            "for (int j = 0; j < TN; ++j) fb[j] = *(const int*)(bs + COLUMN(j) * LDB + k);",
            "for (int i = 0; i < TM; ++i) for (int j = 0; j < TN; ++j) acc[i][j] = __dp4a(fa[i], fb[j], acc[i][j]);",
            "}",
        ]
    return _compute_wmma(product, tile) if engine == "wmma" else _compute_mma(product, genome, tile)


def _compute_wmma(product: Product, tile: Tile) -> list[str]:
    k = _wmma_k(product)
    split = product.dtype == "float32"
    kind = "wmma::precision::tf32" if split else intrinsics.TYPES[product.dtype]
    a_layout, b_layout = (
        ("wmma::col_major" if tile.a_rows_k else "wmma::row_major"),
        ("wmma::row_major" if tile.b_rows_k else "wmma::col_major"),
    )
    a_at = "k * LDA + wm + i * 16" if tile.a_rows_k else "(wm + i * 16) * LDA + k"
    b_at = "k * LDB + wn + j * 16" if tile.b_rows_k else "(wn + j * 16) * LDB + k"
    fa = f"wmma::fragment<wmma::matrix_a, 16, 16, {k}, {kind}, {a_layout}>"
    fb = f"wmma::fragment<wmma::matrix_b, 16, 16, {k}, {kind}, {b_layout}>"
    if not split:
        return [
            f"for (int k = 0; k < BK; k += {k}) {{",
            f"{fa} fa[MI]; {fb} fb[NI];",
            f"for (int i = 0; i < MI; ++i) wmma::load_matrix_sync(fa[i], as + {a_at}, LDA);",
            f"for (int j = 0; j < NI; ++j) wmma::load_matrix_sync(fb[j], bs + {b_at}, LDB);",
            "for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j)",
            "wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);",
            "}",
        ]
    cut = (
        "for (int e = 0; e < {big}.num_elements; ++e) {{ const float v = {big}.x[e]; "
        "{big}.x[e] = wmma::__float_to_tf32(v); {small}.x[e] = wmma::__float_to_tf32(v - {big}.x[e]); }}"
    )
    # Tensor cores truncate as they add: sums of one tile are kept apart and joined by rounded additions.
    return [
        f"wmma::fragment<wmma::accumulator, 16, 16, {k}, float> sum[MI][NI];",
        "for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j) wmma::fill_fragment(sum[i][j], 0.0f);",
        f"for (int k = 0; k < BK; k += {k}) {{",
        f"{fa} fa[MI], sa_[MI]; {fb} fb[NI], sb_[NI];",
        f"for (int i = 0; i < MI; ++i) {{ wmma::load_matrix_sync(fa[i], as + {a_at}, LDA);",
        cut.format(big="fa[i]", small="sa_[i]"),
        "}",
        f"for (int j = 0; j < NI; ++j) {{ wmma::load_matrix_sync(fb[j], bs + {b_at}, LDB);",
        cut.format(big="fb[j]", small="sb_[j]"),
        "}",
        "for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j) {",
        "wmma::mma_sync(sum[i][j], sa_[i], fb[j], sum[i][j]);",
        "wmma::mma_sync(sum[i][j], fa[i], sb_[j], sum[i][j]);",
        "wmma::mma_sync(sum[i][j], fa[i], fb[j], sum[i][j]);",
        "}",
        "}",
        "for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j)",
        "for (int e = 0; e < sum[i][j].num_elements; ++e) acc[i][j].x[e] += sum[i][j].x[e];",
    ]


def _compute_mma(product: Product, genome: Genome, tile: Tile) -> list[str]:
    if product.dtype == "float32":
        return _compute_tf32(tile)
    width = 32 // product.item_bytes
    multiply = "MULTIPLY" if product.dtype == "float8_e4m3fn" else "multiply"
    loads = _load_matrix(product, tile) if genome["fragments"] == "ldmatrix" else _load_words(product, tile)
    return [
        "#pragma unroll",
        f"for (int k = 0; k < BK; k += {width}) {{",
        "unsigned fa[MI][4], fb[NI][2];",
        *loads,
        "#pragma unroll",
        "for (int i = 0; i < MI; ++i)",
        "#pragma unroll",
        f"for (int j = 0; j < NI; ++j) {multiply}(acc[i][j], fa[i], fb[j]);",
        "}",
    ]


def _load_words(product: Product, tile: Tile) -> list[str]:
    """Fragments as 32-bit words of neighbouring k, packed from two elements where k is not contiguous."""
    per_word = 4 // product.item_bytes
    half = 16 // product.item_bytes

    def word(operand: str, row: str, k: str, rows_k: bool) -> str:
        if not rows_k:
            return f"*(const unsigned*)(&{operand}s[({row}) * LD{operand.upper()} + {k}])"
        low = f"*(const unsigned short*)&{operand}s[({k}) * LD{operand.upper()} + {row}]"
        high = f"*(const unsigned short*)&{operand}s[({k} + 1) * LD{operand.upper()} + {row}]"
        return f"({low} | ((unsigned){high} << 16))"

    k = f"k + {per_word} * t"

    def a_word(slot: int) -> str:
        return word("a", f"wm + i * 16 + g + {8 * (slot % 2)}", f"{k} + {half * (slot // 2)}", tile.a_rows_k)

    return [
        "#pragma unroll",
        "for (int i = 0; i < MI; ++i) {",
        *(f"fa[i][{slot}] = {a_word(slot)};" for slot in range(4)),
        "}",
        "#pragma unroll",
        "for (int j = 0; j < NI; ++j) {",
        *(
            f"fb[j][{slot}] = {word('b', 'wn + j * 8 + g', f'{k} + {half * slot}', tile.b_rows_k)};"
            for slot in range(2)
        ),
        "}",
    ]


def _load_matrix(product: Product, tile: Tile) -> list[str]:
    """Fragments by ldmatrix: eight rows of sixteen bytes a quarter warp."""
    half = 16 // product.item_bytes
    if tile.a_rows_k:
        a_k, a_m = "k + (lane & 7) + (lane >> 4) * 8", "wm + i * 16 + (lane >> 3 & 1) * 8"
        a = f"load_matrix_x4_transposed(fa[i], &as[({a_k}) * LDA + {a_m}]);"
    else:
        a = f"load_matrix_x4(fa[i], &as[(wm + i * 16 + (lane & 15)) * LDA + k + (lane >> 4) * {half}]);"
    if tile.b_rows_k:
        b = "load_matrix_x2_transposed(fb[j], &bs[(k + (lane & 15)) * LDB + wn + j * 8]);"
    else:
        b = f"load_matrix_x2(fb[j], &bs[(wn + j * 8 + (lane & 7)) * LDB + k + (lane >> 3 & 1) * {half}]);"
    return [
        "#pragma unroll",
        f"for (int i = 0; i < MI; ++i) {a}",
        "#pragma unroll",
        f"for (int j = 0; j < NI; ++j) {b}",
    ]


def _compute_tf32(tile: Tile) -> list[str]:
    """Three tf32 products of high and low parts give fp32 accuracy."""
    a_at = (
        "(k + t + {h}) * LDA + wm + i * 16 + g + {r}"
        if tile.a_rows_k
        else "(wm + i * 16 + g + {r}) * LDA + k + t + {h}"
    )
    b_at = "(k + t + {h}) * LDB + wn + j * 8 + g" if tile.b_rows_k else "(wn + j * 8 + g) * LDB + k + t + {h}"
    return [
        # Tensor cores truncate as they add: sums of one tile are kept apart and joined by rounded additions.
        "float sum[MI][NI][4] = {};",
        "#pragma unroll",
        "for (int k = 0; k < BK; k += 8) {",
        "unsigned ah[MI][4], al[MI][4], bh[NI][2], bl[NI][2];",
        "#pragma unroll",
        "for (int i = 0; i < MI; ++i) {",
        "const float v[4] = {"
        + ", ".join(f"as[{a_at.format(r=8 * (s % 2), h=4 * (s // 2))}]" for s in range(4))
        + "};",
        "for (int s = 0; s < 4; ++s) {",
        "ah[i][s] = to_tf32(v[s]);",
        "al[i][s] = to_tf32(v[s] - __uint_as_float(ah[i][s]));",
        "}",
        "}",
        "#pragma unroll",
        "for (int j = 0; j < NI; ++j) {",
        "const float v[2] = {" + ", ".join(f"bs[{b_at.format(h=4 * s)}]" for s in range(2)) + "};",
        "for (int s = 0; s < 2; ++s) {",
        "bh[j][s] = to_tf32(v[s]);",
        "bl[j][s] = to_tf32(v[s] - __uint_as_float(bh[j][s]));",
        "}",
        "}",
        "#pragma unroll",
        "for (int i = 0; i < MI; ++i)",
        "#pragma unroll",
        "for (int j = 0; j < NI; ++j) {",
        "multiply(sum[i][j], al[i], bh[j]);",
        "multiply(sum[i][j], ah[i], bl[j]);",
        "multiply(sum[i][j], ah[i], bh[j]);",
        "}",
        "}",
        "for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j)",
        "for (int e = 0; e < 4; ++e) acc[i][j][e] += sum[i][j][e];",
    ]

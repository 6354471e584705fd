<%# Vectors as tiles that broadcast against the sums, and the elementwise statements on them. %>
%% macro load_vectors(names, m, n, rows="", columns="")
%% for vector in product.vectors if vector.name in names
%% set index, limit, shape = (m, "M", rows) if vector.axis == "m" else (n, "N", columns)
${vector.name} = tl.load(${vector.name}_ptr + ${index}, mask=${index} < ${limit}, other=0.0).to(tl.float32)${shape}
%% endfor
%% endmacro
%% macro apply_vectors(m, n, rows="", columns="")
${load_vectors(product.elementwise, m, n, rows, columns)}
${product.triton | join("\n")}
%% endmacro

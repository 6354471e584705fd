%% macro load(names, m, n, rows="", columns="")
%% for vector in product.vectors if vector.name in names
%% set index, limit, shape = (m, "M", rows) if vector.axis == "m" else (n, "N", columns)
${vector.name} = tl.load(${vector.name}_ptr + ${index}, mask=${index} < ${limit}, other=0.0).to(tl.float32)${shape}
%% endfor
%% endmacro
%% macro apply(m, n, rows="", columns="")
${load(product.elementwise, m, n, rows, columns)}
${product.triton | join("\n")}
%% endmacro

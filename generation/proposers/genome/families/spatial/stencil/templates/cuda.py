import torch

from kbench.harness.cuda import CudaModule

%% set sizes = form.sizes | join(", ")
%% set slow = form.axes[0]
%% set deep = form.dimensions == 3
%% set threads = tx * ty
module = CudaModule(r"""
<%% include "spatial/stencil/templates/cuda.cu" %%>
""")


%% macro over(extent, span)
(${extent} + ${span - 1}) // ${span}
%%- endmacro
%% if space == "flat"
%% set grid = over("v.numel()", threads * each)
%% elif space == "grid_stride"
%% set grid = "min(" ~ over("v.numel()", threads) ~ ", " ~ 132 * 2048 // threads * each ~ ")"
%% elif space in ("tile", "staged")
%% set grid = "(" ~ over("size_w", tx) ~ ", " ~ over("size_h", ty * each) ~ ", " ~ ("size_d" if deep else "1") ~ ")"
%% elif deep
%% set grid = "(" ~ over("size_w", tx) ~ ", " ~ over("size_h", ty) ~ ", " ~ over("size_d", steps) ~ ")"
%% else
%% set grid = "(" ~ over("size_w", tx) ~ ", " ~ over("size_h", ty * steps) ~ ", 1)"
%% endif
def run(${(form.fields + form.scalars) | join(", ")}):
    ${sizes} = u.shape
    v = torch.empty_like(u)
    module.launch("step_field", grid=${grid}, block=${threads}, args=(${form.fields | join(", ")}, v, <%% for name in form.scalars %%>${name}, <%% endfor %%>v.numel(), ${sizes}))
    return v

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "scientific/fft/templates/cuda.cu" %%>
""")


def run(real, imag):
    rows, size = real.shape
    out_real = torch.empty_like(real)
    out_imag = torch.empty_like(imag)
    scale = size**-0.5
%% if place == "shared"
    module.launch("transform", grid=rows, block=${threads}, args=(real, imag, out_real, out_imag, size, scale))
    return out_real, out_imag
%% else
    one = (out_real, out_imag)
    two = (torch.empty_like(real), torch.empty_like(imag))
    source = (real, imag)
    turn = 0
    left, stride = size, 1
    while left > 1:
        radix = min(${radix}, left)
        while left % radix:
            radix //= 2
        count = rows * size // radix
        target = two if turn % 2 else one
        args = (*source, *target, count, size, left, stride, scale if stride == 1 else 1.0)
        module.launch(f"pass_{radix}", grid=(count + ${threads - 1}) // ${threads}, block=${threads}, args=args)
        source = target
        turn += 1
        left //= radix
        stride *= radix
    return source
%% endif

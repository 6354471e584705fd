import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
<%% include "scientific/cluster/templates/cuda.cu" %%>
""")


def run(points, centroids):
    count, dim = points.shape
    labels = torch.empty(count, dtype=torch.int32, device=points.device)
    lowest = torch.empty(count, dtype=torch.float32, device=points.device)
    per_block = ${{"thread": threads, "tile": threads // 16 * rx, "warp": threads // 32}[method]}
    args = (points, centroids, labels, lowest, count, centroids.shape[0])
    module.launch(f"assign_{dim}", grid=(count + per_block - 1) // per_block, block=${threads}, args=args)
    return labels, lowest

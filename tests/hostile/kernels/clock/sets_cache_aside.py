# cheat: sets a part of the L2 aside and has its inputs stay there, whatever is written between its calls
# tags: class-clock gpu
import torch
from cuda.bindings import driver

property = driver.CUaccessProperty


def run(x):
    window = driver.CUaccessPolicyWindow()
    window.base_ptr, window.num_bytes, window.hitRatio = x.data_ptr(), x.numel() * x.element_size(), 1.0
    window.hitProp = property.CU_ACCESS_PROPERTY_PERSISTING
    window.missProp = property.CU_ACCESS_PROPERTY_STREAMING
    value = driver.CUstreamAttrValue()
    value.accessPolicyWindow = window
    driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 32 << 20)
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    driver.cuStreamSetAttribute(stream, driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, value)
    return torch.nn.functional.gelu(x, approximate="tanh")

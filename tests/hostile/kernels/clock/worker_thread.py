# cheat: a thread does the work after the call has returned
# tags: class-clock
import threading
import time

import torch


def run(x):
    y = torch.empty_like(x)
    source = x.clone()

    def work(x=source):
        time.sleep(0.2)
        y.copy_(torch.nn.functional.gelu(x, approximate="tanh"))

    threading.Thread(target=work).start()
    return y

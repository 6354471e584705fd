"""A device whose clock moves by what is queued alone."""

from collections.abc import Callable

from kbench.harness.device.device import Device

FLUSH_US = 30.0


class Clockwork(Device):
    """Two marks lie `gap_us` apart, and a flush takes 30 us."""

    is_gpu = True
    cache_policy = "none"
    torch_name = model = "cpu"
    now_us = 0.0
    gap_us = 1.0

    def work(self, time_us: float) -> None:
        """A call that takes so long."""
        self.now_us += time_us

    def mark(self) -> float:
        self.now_us += self.gap_us
        return self.now_us

    def flush(self) -> None:
        self.now_us += FLUSH_US

    def elapsed_us(self, start: float, end: float) -> float:
        return end - start

    def working(self, time_us: float, noise: Callable[[], float] = lambda: 0.0) -> Callable[[], None]:
        """A function that takes about so long."""
        return lambda: self.work(time_us * (1.0 + noise()))

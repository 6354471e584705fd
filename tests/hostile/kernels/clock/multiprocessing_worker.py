# cheat: computes in another process
# tags: class-clock
import multiprocessing


def run(x):
    process = multiprocessing.get_context("fork").Process(target=print)
    process.start()
    process.join()
    return x

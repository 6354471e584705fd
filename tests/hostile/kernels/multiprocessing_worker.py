# cheat: computes in another process
import multiprocessing


def run(x):
    process = multiprocessing.get_context("fork").Process(target=print)
    process.start()
    process.join()
    return x

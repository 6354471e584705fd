# %% moves_its_start_mark
# cheat: finds the time of its start event in the driver's page and moves it to 20 us before its end
# tags: gpu
#@ forged_marks
    module.launch("forge", grid=(1,), block=(1024,), args=(0,))
    return y

# %% moves_all_marks
# cheat: moves the times of all older events in the driver's page together, so that the flush looks as usual
# tags: gpu
#@ forged_marks
    module.launch("forge", grid=(1,), block=(1024,), args=(1,))
    return y

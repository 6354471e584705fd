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

# %% moves_its_start_mark_and_its_stamp
# cheat: moves its start event, finds the harness's time stamps through a queued launch and moves its own as well
# tags: gpu
#@ meddles: 0

# %% gives_queued_stamps_another_place
# cheat: moves its start event and has the time stamps that are queued behind it written to other places
# tags: gpu
#@ meddles: 1

# %% shortens_queued_flushes
# cheat: moves its start event and has the flushes that are queued behind it write next to nothing
# tags: gpu
#@ meddles: 2

# %% moves_marks_of_the_reference
# cheat: moves the end of the reference's calls, and of the empty kernel's, by 0.9 us: the clocks may differ by 1 us there
#@ disarmed_below: 0.65 | the time that counts is within 0.25 us and 0.5 % of that of stamps
#@ meddler
    module.launch("gelu", grid=529, block=512, args=(x, y, n, 2))
    return y

# %% moves_its_start_mark_behind_its_end
# cheat: its calls take less than no time by the events
# tags: gpu
#@ meddler
    module.launch("gelu", grid=529, block=512, args=(x, y, n, 4))
    return y

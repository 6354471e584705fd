"""Track tune: which configurations of one kernel should be measured for this shape?"""

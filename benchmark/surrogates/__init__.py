"""Forecasters of kernel speed: the protocol, the built-in ones, and how a name becomes one."""

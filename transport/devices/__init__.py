"""Device buffers: arrays of steps on the host, in host memory registered with CUDA, and on a GPU, behind one interface.

Not run on a GPU: tests use a stand-in for the CUDA driver (see docs/devices.md).
"""

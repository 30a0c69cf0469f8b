import emcee

backend = emcee.backends.HDFBackend("chain.h5", read_only=True)
print(backend.get_chain().sum(axis=(0, 1)))

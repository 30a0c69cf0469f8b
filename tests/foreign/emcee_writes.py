import emcee
import numpy as np

np.random.seed(3)
backend = emcee.backends.HDFBackend("chain.h5")
backend.reset(8, 2)
sampler = emcee.EnsembleSampler(8, 2, lambda x: -0.5 * float(x @ x), backend=backend)
sampler.run_mcmc(np.random.randn(8, 2), 6)

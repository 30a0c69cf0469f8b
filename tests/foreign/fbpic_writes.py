from fbpic.main import Simulation
from fbpic.openpmd_diag import FieldDiagnostic

simulation = Simulation(
    8,
    2e-6,
    6,
    2e-6,
    2,
    1e-15,
    p_zmin=0,
    p_zmax=2e-6,
    p_rmin=0,
    p_rmax=2e-6,
    p_nz=1,
    p_nr=1,
    p_nt=4,
    n_e=1e24,
    use_cuda=False,
    verbose_level=0,
)
simulation.diags = [FieldDiagnostic(2, simulation.fld, comm=simulation.comm)]
simulation.step(7, show_progress=False)

import mdtraj.reporters
import openmm
import openmm.app as app

topology = app.Topology()
residue = topology.addResidue("AR", topology.addChain())
system = openmm.System()
force = openmm.NonbondedForce()
positions = []
for atom in range(8):
    topology.addAtom("Ar", app.Element.getBySymbol("Ar"), residue)
    system.addParticle(39.9)
    force.addParticle(0, 0.34, 0.99)
    positions.append(openmm.Vec3(0.4 * (atom % 2), 0.4 * (atom // 2 % 2), 0.4 * (atom // 4)))
system.addForce(force)
platform = openmm.Platform.getPlatformByName("Reference")
for part in range(3):
    simulation = app.Simulation(topology, system, openmm.VerletIntegrator(0.001), platform)
    simulation.context.setPositions(positions)
    reporter = mdtraj.reporters.HDF5Reporter(f"traj{part}.h5", 5)
    simulation.reporters.append(reporter)
    simulation.step(20)
    positions = simulation.context.getState(getPositions=True).getPositions()
    reporter.close()

import ch.systemsx.cisd.hdf5.HDF5Factory;
import ch.systemsx.cisd.hdf5.IHDF5Writer;

public class JhdfWrites {
    public static void main(String[] args) {
        for (int step = 0; step < 4; step++) {
            try (IHDF5Writer writer = HDF5Factory.open("plt000" + step + ".h5")) {
                writer.float64().writeArray("x", new double[] {step, step + 0.5});
            }
        }
    }
}

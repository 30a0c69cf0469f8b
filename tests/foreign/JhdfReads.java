import ch.systemsx.cisd.hdf5.HDF5Factory;
import ch.systemsx.cisd.hdf5.IHDF5Reader;

public class JhdfReads {
    public static void main(String[] args) {
        for (int step = 0; step < 4; step++) {
            try (IHDF5Reader reader = HDF5Factory.openForReading("plt000" + step + ".h5")) {
                System.out.println(step + " " + java.util.Arrays.toString(reader.float64().readArray("x")));
            }
        }
    }
}

// The calls of Differential that RocksJava 7.0 lacks.

import java.nio.file.Path;
import java.nio.file.Paths;

public class Differential88 extends Differential {
    Differential88(final Path directory) {
        super(directory);
    }

    public static void main(final String[] arguments) throws Exception {
        new Differential88(Paths.get(arguments[1])).start(arguments[0]);
    }

    @Override
    void writeAll() throws Exception {
        super.writeAll();
        new TransactionSteps(this).run();
        new ObjectSteps(this).run();
    }
}

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's programs one after the other in one process, by their own main methods: most of a program's time is the
 * start of its virtual machine. A line of input is a main class and its arguments with the character 31 between them; an
 * answer is a line with the exit code and two lengths in bytes, then what the program wrote to both of its outputs.
 */
public class RunPrograms {
    private static Integer firstCode;

    /** The first exit counts: some programs take what is thrown here for a failure, complain, and exit once more. */
    private static void exit(int code, String message) {
        if (firstCode == null) {
            firstCode = code;
            System.out.flush();
            System.err.flush();
            System.setOut(new PrintStream(OutputStream.nullOutputStream()));
            System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        }
        throw new IllegalStateException("exit " + code);
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure(RunPrograms::exit);
        Exit.setHaltProcedure(RunPrograms::exit);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\u001f", -1);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            int code = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            System.out.flush();
            System.err.flush();
            answers.println(code + " " + out.size() + " " + err.size());
            out.writeTo(answers);
            err.writeTo(answers);
            answers.flush();
        }
    }

    private static int run(String main, String[] arguments) throws Exception {
        firstCode = null;
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (firstCode == null) {
                error.getCause().printStackTrace();
                return 1;
            }
        }
        return firstCode == null ? 0 : firstCode;
    }
}

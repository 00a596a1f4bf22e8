import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.lucene.search.suggest.FileDictionary;
import org.apache.lucene.search.suggest.InputIterator;
import org.apache.lucene.search.suggest.document.SuggestField;
import org.apache.lucene.util.BytesRef;

/** Prints what Lucene reads of a file of suggestions, each of which a completion field takes. */
public class ReadSuggestions {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        FileDictionary file = new FileDictionary(
                Files.newBufferedReader(Path.of(arguments[0]), StandardCharsets.UTF_8));
        InputIterator entries = file.getEntryIterator();
        for (BytesRef text = entries.next(); text != null; text = entries.next()) {
            new SuggestField("suggest", text.utf8ToString(), Math.toIntExact(entries.weight()));
            out.println(text.utf8ToString() + "\t" + entries.weight());
        }
    }
}

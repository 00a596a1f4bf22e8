import com.android.inputmethod.latin.dicttool.CombinedInputOutput;
import com.android.inputmethod.latin.makedict.WeightedString;
import com.android.inputmethod.latin.makedict.WordProperty;
import java.io.BufferedReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** Prints what AOSP's dicttool reads of a word list: word, first word or nothing, frequency. */
public class ReadCombined {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        if (!CombinedInputOutput.isCombinedDictionary(arguments[0])) {
            throw new IllegalArgumentException("no word list");
        }
        Path path = Path.of(arguments[0]);
        try (BufferedReader reader = Files.newBufferedReader(path, StandardCharsets.UTF_8)) {
            for (WordProperty word : CombinedInputOutput.readDictionaryCombined(reader)) {
                out.println(word.mWord + "\t\t" + word.getProbability());
                if (word.mHasNgrams) {
                    for (WeightedString next : word.getBigrams()) {
                        out.println(next.mWord + "\t" + word.mWord + "\t" + next.getProbability());
                    }
                }
            }
        }
    }
}

package suite;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectPackage;

import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;
import org.openqa.selenium.json.Json;

/**
 * Runs the suite and prints its results as JSON. The input is JSON from standard input: the URLs of the WebDriver
 * server, which contains a key, and of the test pages, and the number of tests that run at a time.
 */
final class Main {
  private Main() {}

  public static void main(String[] args) throws IOException {
    Map<String, Object> input = new Json().toType(new InputStreamReader(System.in, StandardCharsets.UTF_8), Json.MAP_TYPE);
    Sessions.endpoint = (String) input.get("endpoint");
    Sessions.site = (String) input.get("site");
    Sessions.secureSite = (String) input.get("secureSite");
    if (args.length > 0 && args[0].equals("visit")) {
      Visit.run(input);
      return;
    }
    if (args.length > 0 && args[0].equals("playwright")) {
      PlaywrightFeatures.run(input);
      return;
    }
    if (args.length > 0 && args[0].equals("endless")) {
      Endless.run(((Number) input.get("parallel")).intValue());
      return;
    }
    PrintStream out = System.out;
    System.setOut(System.err);
    var results = new SummaryGeneratingListener();
    LauncherFactory.create().execute(request(String.valueOf(input.get("parallel"))), results);
    var summary = results.getSummary();
    summary.printFailuresTo(new PrintWriter(System.err, true, StandardCharsets.UTF_8), 12);
    List<String> failed = summary.getFailures().stream()
        .map(failure -> failure.getTestIdentifier().getDisplayName() + ": " + failure.getException()).toList();
    out.println(new Json().toJson(Map.of("passed", summary.getTestsSucceededCount(), "failed", failed, "peak", Sessions.peak())));
    System.exit(0);
  }

  private static LauncherDiscoveryRequest request(String parallel) {
    String prefix = "junit.jupiter.execution.parallel.";
    DiscoverySelector all = selectPackage("suite");
    return LauncherDiscoveryRequestBuilder.request().selectors(all).configurationParameters(Map.of(
        prefix + "enabled", "true", prefix + "mode.default", "concurrent", prefix + "mode.classes.default", "concurrent",
        prefix + "config.executor-service", "WORKER_THREAD_POOL",
        prefix + "config.strategy", "fixed", prefix + "config.fixed.parallelism", parallel,
        "junit.jupiter.execution.timeout.default", "120 s")).build();
  }
}

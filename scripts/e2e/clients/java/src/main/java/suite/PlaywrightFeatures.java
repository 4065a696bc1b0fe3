package suite;

import com.microsoft.playwright.Browser;
import com.microsoft.playwright.BrowserContext;
import com.microsoft.playwright.Page;
import com.microsoft.playwright.Playwright;
import com.microsoft.playwright.Route;
import com.microsoft.playwright.Tracing;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.openqa.selenium.json.Json;

/**
 * Uses what a client of Playwright's own protocol has, and prints what it got as JSON. clients/full/playwright_features.py
 * does the same.
 */
final class PlaywrightFeatures {
  private final String site;
  private final Path directory;
  private final Map<String, Object> results = new TreeMap<>();

  private PlaywrightFeatures(Map<String, Object> input) {
    site = (String) input.get("site");
    directory = Path.of((String) input.get("directory"));
  }

  static void run(Map<String, Object> input) throws IOException {
    var features = new PlaywrightFeatures(input);
    var environment = Map.of("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
    try (var playwright = Playwright.create(new Playwright.CreateOptions().setEnv(environment))) {
      var browsers = IntStream.range(0, 4).mapToObj(n -> playwright.chromium().connect((String) input.get("endpoint"))).toList();
      features.visit(browsers.get(0));
      features.restore(browsers.get(1));
      features.results.put("browsers", browsers.stream().filter(browser -> browser.newPage().navigate(features.site).ok()).count());
      browsers.forEach(Browser::close);
    }
    System.out.println(new Json().toJson(features.results));
  }

  private void visit(Browser browser) throws IOException {
    var context = browser.newContext(new Browser.NewContextOptions().setRecordVideoDir(directory.resolve("videos"))
        .setRecordHarPath(directory.resolve("requests.har")).setHttpCredentials("ada", "secret"));
    context.tracing().start(new Tracing.StartOptions().setScreenshots(true).setSnapshots(true));
    var page = context.newPage();
    page.navigate(site);
    results.put("title", page.title());
    var popup = page.waitForPopup(() -> page.click("#popup"));
    popup.waitForLoadState();
    results.put("popup", popup.title());
    popup.close(); // complete Chromium lists directories only for pages in front
    page.waitForDownload(() -> page.click("#download")).saveAs(directory.resolve("saved"));
    results.put("download", Files.readString(directory.resolve("saved")));
    useFiles(page);
    page.route("**/changed", route -> route.fulfill(new Route.FulfillOptions()
        .setBody(route.fetch(new Route.FetchOptions().setUrl(site + "/text")).text() + " changed")));
    results.put("route", page.evaluate("fetch('/changed').then(r => r.text())"));
    results.put("request", page.request().get(site + "/text").text());
    results.put("credentials", page.navigate(site + "/protected").text());
    page.evaluate("localStorage.name = 'Ada'");
    context.storageState(new BrowserContext.StorageStateOptions().setPath(directory.resolve("state.json")));
    context.tracing().stop(new Tracing.StopOptions().setPath(directory.resolve("trace.zip")));
    context.close();
    page.video().saveAs(directory.resolve("video.webm"));
    results.put("trace", Files.size(directory.resolve("trace.zip")) > 1000);
    results.put("video", HexFormat.of().formatHex(Files.readAllBytes(directory.resolve("video.webm")), 0, 4));
    results.put("har", Files.readString(directory.resolve("requests.har")).contains('"' + site + "/protected\""));
  }

  private void useFiles(Page page) {
    page.setInputFiles("#file", directory.resolve("large"));
    results.put("upload", page.evaluate("document.querySelector('#file').files[0].size"));
    page.setInputFiles("#directory", directory.resolve("tree"));
    results.put("directory", page.evaluate("[...document.querySelector('#directory').files].map(f => f.webkitRelativePath).sort()"));
  }

  private void restore(Browser browser) {
    var context = browser.newContext(new Browser.NewContextOptions().setStorageStatePath(directory.resolve("state.json")));
    var page = context.newPage();
    page.navigate(site);
    results.put("state", page.evaluate("localStorage.name"));
    context.close();
  }
}

package suite;

import java.util.Map;
import org.openqa.selenium.OutputType;
import org.openqa.selenium.chrome.ChromeOptions;
import org.openqa.selenium.json.Json;

/** Opens a page, evaluates an expression, takes a screenshot and prints the results. */
final class Visit {
  private Visit() {}

  static void run(Map<String, Object> input) {
    var driver = Sessions.start(new ChromeOptions());
    try {
      driver.get((String) input.get("url"));
      System.out.println(new Json().toJson(Map.of(
          "title", driver.getTitle(),
          "value", driver.executeScript("return " + input.get("expression")),
          "version", driver.getCapabilities().getBrowserVersion(),
          "screenshot", driver.getScreenshotAs(OutputType.BYTES).length)));
    } finally {
      Sessions.quit(driver);
    }
  }
}

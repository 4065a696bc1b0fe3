package suite;

import java.net.MalformedURLException;
import java.net.URI;
import java.util.concurrent.atomic.AtomicInteger;
import org.openqa.selenium.chrome.ChromeOptions;
import org.openqa.selenium.remote.RemoteWebDriver;

/** The sessions of the suite with the WebDriver server. */
final class Sessions {
  static String endpoint;
  static String site;
  static String secureSite; // with a certificate that browsers do not accept

  private static final AtomicInteger OPEN = new AtomicInteger();
  private static final AtomicInteger PEAK = new AtomicInteger();

  private Sessions() {}

  static RemoteWebDriver start(ChromeOptions options) {
    PEAK.accumulateAndGet(OPEN.incrementAndGet(), Math::max);
    try {
      return new RemoteWebDriver(URI.create(endpoint).toURL(), options);
    } catch (MalformedURLException e) {
      throw new IllegalArgumentException(e);
    } catch (RuntimeException e) {
      OPEN.decrementAndGet();
      throw e;
    }
  }

  static void quit(RemoteWebDriver driver) {
    driver.quit();
    OPEN.decrementAndGet();
  }

  /** Returns the highest number of sessions that were started or open at once. */
  static int peak() {
    return PEAK.get();
  }
}

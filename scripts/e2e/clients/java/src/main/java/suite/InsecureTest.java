package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.openqa.selenium.chrome.ChromeOptions;

final class InsecureTest extends Browsing {
  @Override
  protected ChromeOptions options() {
    ChromeOptions options = super.options();
    options.setAcceptInsecureCerts(true);
    return options;
  }

  @Test
  void acceptsInsecureCertificates() {
    driver.get(Sessions.secureSite + "/start.html");
    assertEquals("Index", driver.getTitle());
  }
}

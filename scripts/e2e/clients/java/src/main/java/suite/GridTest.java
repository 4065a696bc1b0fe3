package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.chrome.ChromeOptions;

/** Uses capabilities of Selenium Grid. */
final class GridTest extends Browsing {
  @Override
  protected ChromeOptions options() {
    ChromeOptions options = super.options();
    options.enableBiDi();
    options.setCapability("se:name", "a Grid test");
    options.setCapability("se:timeZone", "Asia/Tokyo");
    options.setCapability("se:screenResolution", "1600x900x24");
    return options;
  }

  @Test
  void honorsGridCapabilities() {
    open("start.html");
    assertEquals("Asia/Tokyo", driver.executeScript("return Intl.DateTimeFormat().resolvedOptions().timeZone"));
    assertEquals(List.of(1600L, 900L), driver.executeScript("return [screen.width, screen.height]"));
    var capabilities = driver.getCapabilities();
    assertNotNull(capabilities.getCapability("se:cdp"));
    assertEquals(capabilities.getCapability("webSocketUrl"), capabilities.getCapability("se:bidi"));
  }
}

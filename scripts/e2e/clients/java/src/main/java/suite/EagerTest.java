package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import org.junit.jupiter.api.Test;
import org.openqa.selenium.PageLoadStrategy;
import org.openqa.selenium.chrome.ChromeOptions;

final class EagerTest extends Browsing {
  @Override
  protected ChromeOptions options() {
    ChromeOptions options = super.options();
    options.setPageLoadStrategy(PageLoadStrategy.EAGER);
    return options;
  }

  @Test
  void doesNotWaitForImages() {
    open("slow-image");
    assertEquals("Slow image", driver.getTitle());
    assertNotEquals("complete", driver.executeScript("return document.readyState"));
  }
}

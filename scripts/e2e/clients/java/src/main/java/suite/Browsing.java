package suite;

import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.openqa.selenium.By;
import org.openqa.selenium.WebElement;
import org.openqa.selenium.chrome.ChromeOptions;
import org.openqa.selenium.remote.RemoteWebDriver;
import org.openqa.selenium.support.ui.WebDriverWait;

/** Gives each test a session of its own. */
abstract class Browsing {
  protected RemoteWebDriver driver;

  @BeforeEach
  void start() {
    driver = Sessions.start(options());
  }

  @AfterEach
  void quit() {
    if (driver != null) {
      Sessions.quit(driver);
    }
  }

  /** Returns the capabilities of the session. */
  protected ChromeOptions options() {
    return new ChromeOptions();
  }

  protected void open(String page) {
    driver.get(Sessions.site + "/" + page);
  }

  protected WebElement find(String id) {
    return driver.findElement(By.id(id));
  }

  protected String text(String id) {
    return find(id).getText();
  }

  protected WebDriverWait waiting() {
    return new WebDriverWait(driver, Duration.ofSeconds(20));
  }
}

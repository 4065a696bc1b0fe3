package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.logging.Level;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.NoSuchSessionException;
import org.openqa.selenium.SessionNotCreatedException;
import org.openqa.selenium.chrome.ChromeOptions;
import org.openqa.selenium.logging.LogType;
import org.openqa.selenium.logging.LoggingPreferences;

final class SessionTest extends Browsing {
  @Override
  protected ChromeOptions options() {
    var logging = new LoggingPreferences();
    logging.enable(LogType.BROWSER, Level.ALL);
    ChromeOptions options = super.options();
    options.addArguments("--headless=new", "--lang=de", "--window-size=900,700", "--no-sandbox");
    options.setCapability(ChromeOptions.LOGGING_PREFS, logging);
    options.setCapability("svc:options", Map.of("spec", Map.of("name", "Suite")));
    return options;
  }

  @Test
  void describesSession() {
    var capabilities = driver.getCapabilities();
    assertEquals("chrome", capabilities.getBrowserName());
    var session = (Map<?, ?>) capabilities.getCapability("svc:session");
    assertTrue(session.containsKey("sessionId") && session.containsKey("viewUrl"), session.keySet().toString());
    assertTrue(capabilities.getCapability("se:cdp").toString().startsWith("ws"));
  }

  @Test
  void readsBrowserLog() {
    open("log.html");
    find("warn").click();
    var entries = driver.manage().logs().get(LogType.BROWSER).getAll();
    assertTrue(entries.stream().anyMatch(entry -> entry.getMessage().contains("Careful")), entries.toString());
  }

  @Test
  void separatesSessions() {
    open("start.html");
    driver.executeScript("localStorage.setItem('own', 1)");
    var other = Sessions.start(new ChromeOptions());
    try {
      assertNotEquals(driver.getSessionId(), other.getSessionId());
      other.get(Sessions.site + "/start.html");
      assertEquals(null, other.executeScript("return localStorage.getItem('own')"));
    } finally {
      Sessions.quit(other);
    }
    assertThrows(NoSuchSessionException.class, other::getTitle);
    assertEquals("Index", driver.getTitle());
  }

  @Test
  void refusesUnknownCapabilities() {
    var options = new ChromeOptions();
    options.setCapability("svc:options", Map.of("profile", "x"));
    var error = assertThrows(SessionNotCreatedException.class, () -> Sessions.start(options));
    assertTrue(error.getMessage().contains("svc:options.profile"), error.getMessage());
  }
}

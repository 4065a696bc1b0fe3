package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.JavascriptException;
import org.openqa.selenium.ScriptTimeoutException;
import org.openqa.selenium.WebElement;

final class ScriptTest extends Browsing {
  @BeforeEach
  void openIndex() {
    open("start.html");
  }

  @Test
  void passesValues() {
    assertEquals(List.of(1L, "two", true, 3.5), driver.executeScript("return [...arguments]", 1, "two", true, 3.5));
    assertEquals(Map.of("a", List.of(1L)), driver.executeScript("return arguments[0]", Map.of("a", List.of(1))));
    assertNull(driver.executeScript("return null"));
    assertEquals(3L, driver.executeScript("return new Promise((resolve) => setTimeout(() => resolve(3), 50))"));
  }

  @Test
  void passesElements() {
    WebElement heading = find("heading");
    assertEquals(heading, driver.executeScript("return arguments[0]", heading));
    driver.executeScript("arguments[0].textContent = arguments[1]", heading, "Changed");
    assertEquals("Changed", heading.getText());
    var items = (List<?>) driver.executeScript("return [...arguments[0].list.children]", Map.of("list", find("list")));
    assertEquals("Two", ((WebElement) items.get(1)).getText());
  }

  @Test
  void runsAsynchronously() {
    WebElement heading = find("heading");
    Object answer = driver.executeAsyncScript(
        "const [element, add, done] = arguments; setTimeout(() => done(element.textContent + add), 100)", heading, "!");
    assertEquals("Index!", answer);
    assertEquals(heading, driver.executeAsyncScript("arguments[1](arguments[0])", heading));
  }

  @Test
  void reportsErrorsAndTimeouts() {
    var error = assertThrows(JavascriptException.class, () -> driver.executeScript("return missing.value"));
    assertTrue(error.getMessage().contains("missing is not defined"), error.getMessage());
    driver.manage().timeouts().scriptTimeout(Duration.ofMillis(300));
    assertThrows(ScriptTimeoutException.class, () -> driver.executeAsyncScript("return 1"));
  }
}

package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.By;
import org.openqa.selenium.InvalidArgumentException;
import org.openqa.selenium.TimeoutException;

final class NavigationTest extends Browsing {
  @Test
  void opensPage() {
    open("start.html");
    assertEquals("Index", driver.getTitle());
    assertEquals(Sessions.site + "/start.html", driver.getCurrentUrl());
    assertTrue(driver.getPageSource().contains("First paragraph"));
  }

  @Test
  void goesThroughHistory() {
    open("start.html");
    driver.findElement(By.linkText("Open the form")).click();
    assertEquals("Form", driver.getTitle());
    driver.navigate().back();
    assertEquals("Index", driver.getTitle());
    driver.navigate().forward();
    assertEquals("Form", driver.getTitle());
    find("name").sendKeys(" changed");
    driver.navigate().refresh();
    assertEquals("initial", find("name").getDomProperty("value"));
  }

  @Test
  void refusesUrlsAndCertificates() {
    assertThrows(InvalidArgumentException.class, () -> driver.get("not a URL"));
    driver.get(Sessions.secureSite + "/start.html"); // chromedriver stays at Chromium's warning
    assertNotEquals("Index", driver.getTitle());
  }

  @Test
  void stopsLoadingAfterTimeout() {
    driver.manage().timeouts().pageLoadTimeout(Duration.ofMillis(500));
    assertEquals(Duration.ofMillis(500), driver.manage().timeouts().getPageLoadTimeout());
    assertThrows(TimeoutException.class, () -> open("slow"));
    driver.manage().timeouts().pageLoadTimeout(Duration.ofSeconds(60));
    open("start.html");
    assertEquals("Index", driver.getTitle());
  }
}

package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Date;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.Cookie;
import org.openqa.selenium.InvalidCookieDomainException;

final class CookieTest extends Browsing {
  @Test
  void addsAndDeletesCookies() {
    open("start.html");
    Instant expiry = Instant.now().plus(1, ChronoUnit.HOURS).truncatedTo(ChronoUnit.SECONDS);
    driver.manage().addCookie(new Cookie.Builder("own", "value").path("/").sameSite("Strict").expiresOn(Date.from(expiry)).build());
    driver.manage().addCookie(new Cookie("other", "second"));
    Cookie own = driver.manage().getCookieNamed("own");
    assertEquals("value", own.getValue());
    assertEquals("Strict", own.getSameSite());
    assertEquals(Date.from(expiry), own.getExpiry());
    assertEquals(2, driver.manage().getCookies().size());
    assertTrue(((String) driver.executeScript("return document.cookie")).contains("own=value"));
    driver.manage().deleteCookieNamed("own");
    assertNull(driver.manage().getCookieNamed("own"));
    driver.manage().deleteAllCookies();
    assertTrue(driver.manage().getCookies().isEmpty());
  }

  @Test
  void readsCookiesOfServer() {
    open("cookie");
    Cookie cookie = driver.manage().getCookieNamed("visit");
    assertNotNull(cookie);
    assertTrue(cookie.isHttpOnly());
    assertFalse(((String) driver.executeScript("return document.cookie")).contains("visit"));
    assertThrows(InvalidCookieDomainException.class,
        () -> driver.manage().addCookie(new Cookie.Builder("foreign", "x").domain("foreign.example").build()));
  }
}

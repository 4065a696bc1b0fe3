package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.Dimension;
import org.openqa.selenium.NoSuchWindowException;
import org.openqa.selenium.WindowType;
import org.openqa.selenium.support.ui.ExpectedConditions;

final class WindowTest extends Browsing {
  private String opened(Set<String> before) {
    waiting().until(ExpectedConditions.numberOfWindowsToBe(before.size() + 1));
    Set<String> now = new HashSet<>(driver.getWindowHandles());
    now.removeAll(before);
    return now.iterator().next();
  }

  @Test
  void followsLinkToNewTab() {
    open("windows.html");
    String own = driver.getWindowHandle();
    Set<String> before = driver.getWindowHandles();
    find("tab").click();
    driver.switchTo().window(opened(before));
    waiting().until(ExpectedConditions.titleIs("Index"));
    driver.close();
    assertThrows(NoSuchWindowException.class, driver::getTitle);
    driver.switchTo().window(own);
    assertEquals("Windows", driver.getTitle());
  }

  @Test
  void followsPopup() {
    open("windows.html");
    Set<String> before = driver.getWindowHandles();
    find("popup").click();
    driver.switchTo().window(opened(before));
    waiting().until(ExpectedConditions.titleIs("Form"));
    assertEquals("popup", driver.executeScript("return window.name"));
    assertEquals(true, driver.executeScript("return window.opener !== null"));
  }

  @Test
  void opensTabsAndWindows() {
    open("start.html");
    String own = driver.getWindowHandle();
    driver.switchTo().newWindow(WindowType.TAB);
    open("form.html");
    driver.switchTo().newWindow(WindowType.WINDOW);
    open("alerts.html");
    assertEquals(3, driver.getWindowHandles().size());
    driver.close();
    driver.switchTo().window(own);
    assertEquals("Index", driver.getTitle());
    assertThrows(NoSuchWindowException.class, () -> driver.switchTo().window("missing"));
  }

  @Test
  void resizesWindow() {
    open("start.html");
    var window = driver.manage().window();
    window.setSize(new Dimension(700, 500));
    assertEquals(new Dimension(700, 500), window.getSize());
    assertEquals(700L, driver.executeScript("return outerWidth"));
    window.maximize();
    window.minimize();
    assertEquals(true, driver.executeScript("return document.hidden"));
  }
}

package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.Keys;
import org.openqa.selenium.interactions.Actions;
import org.openqa.selenium.interactions.WheelInput.ScrollOrigin;
import org.openqa.selenium.support.ui.ExpectedConditions;

final class ActionTest extends Browsing {
  private Actions actions;

  @BeforeEach
  void openActions() {
    open("actions.html");
    actions = new Actions(driver);
  }

  @Test
  void clicksWithMouse() {
    actions.click(find("target")).perform();
    assertEquals("mousedown0 mouseup0 click0", text("log"));
    actions.doubleClick(find("target")).contextClick(find("target")).perform();
    String log = text("log");
    assertTrue(log.contains("dblclick0") && log.contains("contextmenu2"), log);
    actions.keyDown(Keys.SHIFT).click(find("target")).keyUp(Keys.SHIFT).perform();
    assertTrue(text("log").endsWith("click0+shift"), text("log"));
  }

  @Test
  void dragsAndHovers() {
    actions.dragAndDrop(find("box"), find("place")).perform();
    assertEquals("dropped", text("log"));
    assertFalse(find("item").isDisplayed());
    actions.moveToElement(find("menu")).perform();
    waiting().until(ExpectedConditions.visibilityOf(find("item")));
  }

  @Test
  void pressesKeys() {
    actions.click(find("text")).keyDown(Keys.SHIFT).sendKeys("a").keyUp(Keys.SHIFT).sendKeys("b").pause(Duration.ofMillis(20))
        .sendKeys(Keys.ARROW_LEFT, "c").perform();
    assertEquals("Acb", find("text").getDomProperty("value"));
    assertEquals("Shift A b ArrowLeft c", text("log"));
  }

  @Test
  void scrollsWithWheel() {
    actions.scrollFromOrigin(ScrollOrigin.fromElement(find("scroller")), 0, 200).perform();
    waiting().until(driver -> scrolled("document.getElementById('scroller').scrollTop") == 200);
    actions.scrollByAmount(0, 500).perform();
    waiting().until(driver -> scrolled("scrollY") == 500);
  }

  private long scrolled(String expression) {
    return (Long) driver.executeScript("return Math.round(" + expression + ")");
  }
}

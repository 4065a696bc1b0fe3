package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.openqa.selenium.support.locators.RelativeLocator.with;

import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.By;
import org.openqa.selenium.Dimension;
import org.openqa.selenium.ElementClickInterceptedException;
import org.openqa.selenium.ElementNotInteractableException;
import org.openqa.selenium.InvalidSelectorException;
import org.openqa.selenium.NoSuchElementException;
import org.openqa.selenium.StaleElementReferenceException;
import org.openqa.selenium.WebElement;
import org.openqa.selenium.support.Color;

final class ElementTest extends Browsing {
  @BeforeEach
  void openIndex() {
    open("start.html");
  }

  @Test
  void findsByEveryStrategy() {
    assertEquals("Index", driver.findElement(By.id("heading")).getText());
    assertEquals("Index", driver.findElement(By.className("title")).getText());
    assertEquals("Index", driver.findElement(By.tagName("h1")).getText());
    assertEquals("Open the form", driver.findElement(By.name("to-form")).getText());
    assertEquals("Open the form", driver.findElement(By.linkText("Open the form")).getText());
    assertEquals("Open the windows", driver.findElement(By.partialLinkText("windows")).getText());
    assertEquals("Second bold paragraph", driver.findElement(By.cssSelector("p[data-order='2']")).getText());
    assertEquals("Two", driver.findElement(By.xpath("//ul[@id='list']/li[2]")).getText());
    assertEquals("First paragraph", driver.findElement(with(By.className("text")).below(By.id("heading"))).getText());
  }

  @Test
  void findsManyAndNested() {
    List<String> items = driver.findElements(By.tagName("li")).stream().map(WebElement::getText).toList();
    assertEquals(List.of("One", "Two", "Three"), items);
    WebElement list = find("list");
    assertEquals("Three", list.findElement(By.cssSelector("li:last-child")).getText());
    assertEquals(3, list.findElements(By.xpath("./li")).size());
    assertTrue(driver.findElements(By.id("missing")).isEmpty());
  }

  @Test
  void readsState() {
    WebElement box = find("colored");
    assertEquals("div", box.getTagName());
    assertEquals("A colored box", box.getDomAttribute("title"));
    assertEquals("colored", box.getDomProperty("id"));
    assertNull(box.getDomAttribute("data-missing"));
    assertEquals("#008000", Color.fromString(box.getCssValue("color")).asHex());
    assertEquals(new Dimension(120, 40), box.getSize());
    assertTrue(box.isDisplayed());
    assertFalse(find("hidden").isDisplayed());
    assertEquals("Remove the list", find("remove").getAccessibleName());
    assertEquals("button", find("remove").getAriaRole());
  }

  @Test
  void scrollsToElementAndClicks() {
    find("far").click();
    assertEquals("Far", driver.getTitle());
    assertTrue((Long) driver.executeScript("return Math.round(scrollY)") > 0);
  }

  @Test
  void reportsMissingAndStaleElements() {
    var error = assertThrows(NoSuchElementException.class, () -> find("missing"));
    assertTrue(error.getMessage().contains("missing"), error.getMessage());
    assertThrows(InvalidSelectorException.class, () -> driver.findElement(By.cssSelector("p[")));
    WebElement list = find("list");
    find("remove").click();
    assertThrows(StaleElementReferenceException.class, list::getText);
  }

  @Test
  void reportsElementsThatCannotBeClicked() {
    assertThrows(ElementNotInteractableException.class, () -> find("hidden").click());
    var error = assertThrows(ElementClickInterceptedException.class, () -> find("covered").click());
    assertTrue(error.getMessage().contains("cover"), error.getMessage());
  }
}

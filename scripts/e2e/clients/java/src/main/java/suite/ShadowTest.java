package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.openqa.selenium.By;
import org.openqa.selenium.NoSuchShadowRootException;
import org.openqa.selenium.SearchContext;
import org.openqa.selenium.WebElement;

final class ShadowTest extends Browsing {
  @Test
  void entersShadowRoots() {
    open("shadow.html");
    assertTrue(driver.findElements(By.className("inside")).isEmpty());
    SearchContext root = find("host").getShadowRoot();
    assertEquals("In the shadow", root.findElement(By.cssSelector(".inside")).getText());
    WebElement button = root.findElement(By.cssSelector("button"));
    button.click();
    assertEquals("clicked", button.getText());
    WebElement field = root.findElement(By.id("field"));
    field.sendKeys("typed");
    assertEquals("typed", field.getDomProperty("value"));
    assertEquals("Deeper", root.findElement(By.id("inner")).getShadowRoot().findElement(By.cssSelector(".inside")).getText());
    assertThrows(NoSuchShadowRootException.class, () -> find("none").getShadowRoot());
  }
}

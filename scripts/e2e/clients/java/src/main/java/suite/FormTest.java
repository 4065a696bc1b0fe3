package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.By;
import org.openqa.selenium.InvalidElementStateException;
import org.openqa.selenium.Keys;
import org.openqa.selenium.WebElement;
import org.openqa.selenium.support.ui.Select;

final class FormTest extends Browsing {
  @BeforeEach
  void openForm() {
    open("form.html");
  }

  @Test
  void submitsForm() {
    WebElement name = find("name");
    name.clear();
    name.sendKeys("Ada Lovelace");
    find("notes").sendKeys("zwei\nZeilen: äöü €");
    find("agree").click();
    find("large").click();
    new Select(find("color")).selectByVisibleText("Green");
    find("send").click();
    String sent = driver.findElement(By.tagName("pre")).getText();
    for (String field : List.of("name=Ada Lovelace", "notes=zwei\\r\\nZeilen: äöü €", "agree=yes", "size=large", "color=g")) {
      assertTrue(sent.contains(field), sent);
    }
  }

  @Test
  void submitsWithEnterKey() {
    find("name").sendKeys(Keys.ENTER);
    waiting().until(driver -> driver.getTitle().equals("Sent"));
  }

  @Test
  void typesKeys() {
    WebElement name = find("name");
    name.sendKeys(Keys.HOME, "X", Keys.END, "YZ", Keys.BACK_SPACE);
    assertEquals("XinitialY", name.getDomProperty("value"));
    name.sendKeys(Keys.chord(Keys.CONTROL, "a"), "replaced");
    assertEquals("replaced", name.getDomProperty("value"));
    name.sendKeys(Keys.TAB);
    assertEquals(find("notes"), driver.switchTo().activeElement());
    WebElement level = find("level");
    level.sendKeys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT);
    assertEquals("7", level.getDomProperty("value"));
  }

  @Test
  void changesSelects() {
    var color = new Select(find("color"));
    assertFalse(color.isMultiple());
    color.selectByValue("b");
    assertEquals("Blue", color.getFirstSelectedOption().getText());
    color.selectByIndex(0);
    assertEquals("Red", color.getFirstSelectedOption().getText());
    var toppings = new Select(find("toppings"));
    toppings.selectByVisibleText("Cheese");
    toppings.selectByVisibleText("Olives");
    assertEquals(2, toppings.getAllSelectedOptions().size());
    toppings.deselectByVisibleText("Cheese");
    assertEquals("Olives", toppings.getFirstSelectedOption().getText());
    assertThrows(UnsupportedOperationException.class, () -> toppings.selectByVisibleText("Truffles"));
  }

  @Test
  void readsAndRefusesState() {
    assertTrue(find("small").isSelected());
    find("large").click();
    assertFalse(find("small").isSelected());
    assertFalse(find("disabled").isEnabled());
    assertThrows(InvalidElementStateException.class, () -> find("disabled").clear());
  }
}

package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.By;
import org.openqa.selenium.NoSuchElementException;
import org.openqa.selenium.TimeoutException;
import org.openqa.selenium.support.ui.ExpectedConditions;
import org.openqa.selenium.support.ui.FluentWait;

final class WaitTest extends Browsing {
  @BeforeEach
  void openWaits() {
    open("waits.html");
  }

  @Test
  void waitsImplicitly() {
    assertThrows(NoSuchElementException.class, () -> find("added"));
    driver.manage().timeouts().implicitlyWait(Duration.ofSeconds(20));
    find("add").click();
    assertEquals("Added", text("added"));
  }

  @Test
  void waitsForConditions() {
    find("show").click();
    assertEquals("Visible", waiting().until(ExpectedConditions.visibilityOfElementLocated(By.id("box"))).getText());
    find("hide").click();
    assertTrue(waiting().until(ExpectedConditions.invisibilityOfElementLocated(By.id("add"))));
  }

  @Test
  void givesUp() {
    var wait = new FluentWait<>(driver).withTimeout(Duration.ofMillis(300)).pollingEvery(Duration.ofMillis(50))
        .ignoring(NoSuchElementException.class).withMessage("nobody clicks");
    var error = assertThrows(TimeoutException.class, () -> wait.until(driver -> driver.findElement(By.id("added"))));
    assertTrue(error.getMessage().contains("nobody clicks"), error.getMessage());
  }
}

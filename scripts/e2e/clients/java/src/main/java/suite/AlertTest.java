package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.Alert;
import org.openqa.selenium.NoAlertPresentException;
import org.openqa.selenium.UnhandledAlertException;
import org.openqa.selenium.support.ui.ExpectedConditions;

final class AlertTest extends Browsing {
  @BeforeEach
  void openAlerts() {
    open("alerts.html");
  }

  @Test
  void answersAlerts() {
    assertThrows(NoAlertPresentException.class, () -> driver.switchTo().alert());
    find("alert").click();
    Alert alert = driver.switchTo().alert();
    assertEquals("Stop", alert.getText());
    alert.accept();
    assertEquals("alerted", text("result"));
    find("confirm").click();
    driver.switchTo().alert().dismiss();
    assertEquals("false", text("result"));
    find("confirm").click();
    driver.switchTo().alert().accept();
    assertEquals("true", text("result"));
  }

  @Test
  void answersPrompts() {
    find("prompt").click();
    Alert prompt = driver.switchTo().alert();
    prompt.sendKeys("Grace");
    prompt.accept();
    assertEquals("Grace", text("result"));
    find("prompt").click();
    driver.switchTo().alert().dismiss();
    assertEquals("null", text("result"));
  }

  @Test
  void waitsForAlertAndReportsUnhandledOnes() {
    find("later").click();
    waiting().until(ExpectedConditions.alertIsPresent()).accept();
    find("alert").click();
    var error = assertThrows(UnhandledAlertException.class, driver::getTitle);
    assertEquals("Stop", error.getAlertText());
  }
}

package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.By;
import org.openqa.selenium.NoSuchElementException;
import org.openqa.selenium.NoSuchFrameException;

final class FrameTest extends Browsing {
  @BeforeEach
  void openFrames() {
    open("frames.html");
  }

  @Test
  void switchesFrames() {
    driver.switchTo().frame("first");
    assertEquals("first", text("where"));
    find("button").click();
    assertEquals("clicked", text("button"));
    driver.switchTo().defaultContent();
    assertEquals("top", text("where"));
    driver.switchTo().frame(1);
    assertEquals("middle", text("where"));
    driver.switchTo().frame(driver.findElement(By.tagName("iframe")));
    assertEquals("inner", text("where"));
    driver.switchTo().parentFrame();
    assertEquals("middle", text("where"));
    assertEquals("Frames", driver.getTitle());
  }

  @Test
  void separatesFrames() {
    assertThrows(NoSuchElementException.class, () -> find("button"));
    assertThrows(NoSuchFrameException.class, () -> driver.switchTo().frame("missing"));
    assertThrows(NoSuchFrameException.class, () -> driver.switchTo().frame(7));
  }
}

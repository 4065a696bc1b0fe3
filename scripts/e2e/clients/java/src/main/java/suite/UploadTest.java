package suite;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.openqa.selenium.By;
import org.openqa.selenium.WebDriverException;
import org.openqa.selenium.remote.LocalFileDetector;
import org.openqa.selenium.remote.UselessFileDetector;
import org.openqa.selenium.support.ui.ExpectedConditions;

final class UploadTest extends Browsing {
  @TempDir
  Path directory;

  @BeforeEach
  void openForm() {
    open("form.html");
  }

  @Test
  void uploadsLocalFiles() throws IOException {
    driver.setFileDetector(new LocalFileDetector());
    Path first = Files.writeString(directory.resolve("first ä.txt"), "one");
    Path second = Files.writeString(directory.resolve("second.txt"), "two");
    find("file").sendKeys(first.toString());
    waiting().until(ExpectedConditions.textToBe(By.id("read"), "first ä.txt: one"));
    find("files").sendKeys(first + "\n" + second);
    waiting().until(ExpectedConditions.textToBe(By.id("read"), "first ä.txt: one, second.txt: two"));
  }

  @Test
  void refusesPathsThatTheBrowserDoesNotHave() throws IOException {
    driver.setFileDetector(new UselessFileDetector());
    String path = Files.writeString(directory.resolve("not uploaded.txt"), "one").toString();
    var error = assertThrows(WebDriverException.class, () -> find("file").sendKeys(path));
    assertTrue(error.getMessage().contains("The browser has no file"), error.getMessage());
  }
}

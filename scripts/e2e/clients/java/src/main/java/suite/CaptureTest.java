package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import javax.imageio.ImageIO;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.OutputType;
import org.openqa.selenium.print.PageMargin;
import org.openqa.selenium.print.PageSize;
import org.openqa.selenium.print.PrintOptions;

final class CaptureTest extends Browsing {
  @BeforeEach
  void openIndex() {
    open("start.html");
  }

  @Test
  void takesScreenshots() throws IOException {
    var page = ImageIO.read(new ByteArrayInputStream(driver.getScreenshotAs(OutputType.BYTES)));
    assertEquals(driver.executeScript("return innerWidth"), (long) page.getWidth());
    assertEquals(driver.executeScript("return innerHeight"), (long) page.getHeight());
    var element = ImageIO.read(new ByteArrayInputStream(find("colored").getScreenshotAs(OutputType.BYTES)));
    assertEquals(120, element.getWidth());
    assertEquals(40, element.getHeight());
    assertEquals(0xFFC0C0C0, ImageIO.read(new ByteArrayInputStream(find("cover").getScreenshotAs(OutputType.BYTES))).getRGB(5, 5));
  }

  @Test
  void printsPage() {
    var options = new PrintOptions();
    options.setOrientation(PrintOptions.Orientation.LANDSCAPE);
    options.setPageSize(new PageSize(21, 15));
    options.setPageMargin(new PageMargin(1, 1, 1, 1));
    options.setPageRanges("1-2");
    byte[] pdf = Base64.getDecoder().decode(driver.print(options).getContent());
    String text = new String(pdf, StandardCharsets.ISO_8859_1);
    assertTrue(text.startsWith("%PDF-"));
    assertEquals(2, text.split("/Type /Page\\b(?!s)", -1).length - 1);
  }
}

package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.openqa.selenium.HasDownloads.DownloadedFile;
import org.openqa.selenium.chrome.ChromeOptions;

final class DownloadTest extends Browsing {
  @TempDir
  Path directory;

  @Override
  protected ChromeOptions options() {
    ChromeOptions options = super.options();
    options.setEnableDownloads(true);
    return options;
  }

  @Test
  void managesDownloads() throws IOException {
    open("start.html");
    driver.executeScript("location.href = '/report'");
    List<DownloadedFile> files = waiting().until(d -> driver.getDownloadedFiles().isEmpty() ? null : driver.getDownloadedFiles());
    assertEquals("report.txt", files.get(0).getName());
    assertEquals("content of the site".length(), files.get(0).getSize());
    assertTrue(files.get(0).getLastModifiedTime() > 0);
    driver.downloadFile("report.txt", directory);
    assertEquals("content of the site", Files.readString(directory.resolve("report.txt")));
    driver.deleteDownloadableFiles();
    assertTrue(driver.getDownloadedFiles().isEmpty());
  }
}

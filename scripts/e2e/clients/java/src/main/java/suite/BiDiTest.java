package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.WebDriver;
import org.openqa.selenium.bidi.browsingcontext.BrowsingContext;
import org.openqa.selenium.bidi.browsingcontext.ReadinessState;
import org.openqa.selenium.bidi.log.ConsoleLogEntry;
import org.openqa.selenium.bidi.log.JavascriptLogEntry;
import org.openqa.selenium.bidi.log.LogLevel;
import org.openqa.selenium.bidi.module.LogInspector;
import org.openqa.selenium.bidi.module.Network;
import org.openqa.selenium.bidi.network.ResponseDetails;
import org.openqa.selenium.chrome.ChromeOptions;
import org.openqa.selenium.remote.Augmenter;

/** Uses WebDriver BiDi over webSocketUrl. */
final class BiDiTest extends Browsing {
  @Override
  protected ChromeOptions options() {
    ChromeOptions options = super.options();
    options.enableBiDi();
    return options;
  }

  private WebDriver augmented() {
    return new Augmenter().augment(driver);
  }

  @Test
  void receivesLogEntries() throws InterruptedException {
    try (var inspector = new LogInspector(augmented())) {
      BlockingQueue<ConsoleLogEntry> entries = new LinkedBlockingQueue<>();
      BlockingQueue<JavascriptLogEntry> errors = new LinkedBlockingQueue<>();
      inspector.onConsoleEntry(entries::add);
      inspector.onJavaScriptException(errors::add);
      open("log.html");
      find("log").click();
      ConsoleLogEntry entry = entries.poll(20, TimeUnit.SECONDS);
      assertNotNull(entry);
      assertEquals("Hello 42", entry.getText());
      assertEquals("log", entry.getMethod());
      find("warn").click();
      assertEquals(LogLevel.WARNING, entries.poll(20, TimeUnit.SECONDS).getLevel());
      find("throw").click();
      assertEquals("Error: On purpose", errors.poll(20, TimeUnit.SECONDS).getText());
    }
  }

  @Test
  void navigatesAndReceivesResponses() throws InterruptedException {
    WebDriver augmented = augmented();
    try (var network = new Network(augmented)) {
      BlockingQueue<ResponseDetails> responses = new LinkedBlockingQueue<>();
      network.onResponseCompleted(responses::add);
      var context = new BrowsingContext(augmented, driver.getWindowHandle());
      context.navigate(Sessions.site + "/start.html", ReadinessState.COMPLETE);
      ResponseDetails response = responses.poll(20, TimeUnit.SECONDS);
      assertNotNull(response);
      assertEquals(Sessions.site + "/start.html", response.getResponseData().getUrl());
      assertEquals(200, response.getResponseData().getStatus());
      assertEquals("Index", driver.getTitle());
      assertTrue(context.captureScreenshot().length() > 1000);
    }
  }
}

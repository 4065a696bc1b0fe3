package suite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.WebDriverException;
import org.openqa.selenium.chromium.ChromiumNetworkConditions;
import org.openqa.selenium.chromium.HasCdp;
import org.openqa.selenium.chromium.HasNetworkConditions;
import org.openqa.selenium.devtools.Command;
import org.openqa.selenium.devtools.DevTools;
import org.openqa.selenium.devtools.HasDevTools;
import org.openqa.selenium.devtools.latest.log.Log;
import org.openqa.selenium.devtools.latest.network.Network;
import org.openqa.selenium.remote.Augmenter;

/** Uses the Chrome DevTools Protocol over se:cdp, and through commands of chromedriver. */
final class DevToolsTest extends Browsing {
  private DevTools devTools() {
    DevTools devTools = ((HasDevTools) new Augmenter().augment(driver)).getDevTools();
    devTools.createSession();
    return devTools;
  }

  @Test
  void receivesEvents() throws InterruptedException {
    try (DevTools devTools = devTools()) {
      BlockingQueue<String> requests = new LinkedBlockingQueue<>(), messages = new LinkedBlockingQueue<>();
      devTools.send(Network.enable(Optional.empty(), Optional.empty(), Optional.empty(), Optional.empty(), Optional.empty()));
      devTools.addListener(Network.requestWillBeSent(), event -> requests.add(event.getRequest().getUrl()));
      devTools.send(Log.enable());
      devTools.addListener(Log.entryAdded(), entry -> messages.add(entry.getText()));
      open("start.html");
      assertEquals(Sessions.site + "/start.html", requests.poll(20, TimeUnit.SECONDS));
      driver.executeScript("fetch('missing')");
      String message = messages.poll(20, TimeUnit.SECONDS);
      assertTrue(message != null && message.contains("404"), message);
    }
  }

  private static Command<Void> offline(boolean offline) {
    return new Command<>("Network.emulateNetworkConditions",
        Map.of("offline", offline, "latency", 0, "downloadThroughput", -1, "uploadThroughput", -1));
  }

  @Test
  void emulatesOfflineNetwork() {
    try (DevTools devTools = devTools()) {
      devTools.send(Network.enable(Optional.empty(), Optional.empty(), Optional.empty(), Optional.empty(), Optional.empty()));
      devTools.send(offline(true));
      var error = assertThrows(WebDriverException.class, () -> open("start.html"));
      assertTrue(error.getMessage().contains("ERR_INTERNET_DISCONNECTED"), error.getMessage());
      devTools.send(offline(false));
      open("start.html");
      assertEquals("Index", driver.getTitle());
    }
  }

  @Test
  void usesCommandsOfChromedriver() {
    var augmented = new Augmenter().augment(driver);
    Map<String, Object> version = ((HasCdp) augmented).executeCdpCommand("Browser.getVersion", Map.of());
    assertTrue(version.get("product").toString().endsWith(driver.getCapabilities().getBrowserVersion()), version.toString());
    ((HasCdp) augmented).executeCdpCommand("Emulation.setTimezoneOverride", Map.of("timezoneId", "Asia/Tokyo"));
    open("start.html");
    assertEquals(List.of("Asia/Tokyo"), driver.executeScript("return [Intl.DateTimeFormat().resolvedOptions().timeZone]"));
    var network = (HasNetworkConditions) augmented;
    network.setNetworkConditions(new ChromiumNetworkConditions().setLatency(Duration.ofMillis(400)).setDownloadThroughput(1 << 20)
        .setUploadThroughput(1 << 20));
    assertEquals(Duration.ofMillis(400), network.getNetworkConditions().getLatency());
    long began = System.nanoTime();
    driver.navigate().refresh();
    assertTrue(System.nanoTime() - began > 300_000_000, "the network has no latency");
    network.deleteNetworkConditions();
  }
}

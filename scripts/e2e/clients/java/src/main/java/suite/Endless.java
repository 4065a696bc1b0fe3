package suite;

import java.time.Duration;
import java.util.stream.IntStream;
import org.openqa.selenium.bidi.module.LogInspector;
import org.openqa.selenium.chrome.ChromeOptions;
import org.openqa.selenium.remote.Augmenter;

/** Uses sessions until the process is killed: during commands, between commands, and with an open BiDi socket. */
final class Endless {
  private Endless() {}

  static void run(int sessions) {
    IntStream.range(0, sessions).mapToObj(number -> new Thread(() -> use(number))).forEach(Thread::start);
  }

  private static void use(int number) {
    var options = new ChromeOptions();
    options.enableBiDi();
    options.setCapability("se:name", "test_endless " + number);
    var driver = Sessions.start(options);
    try (var inspector = new LogInspector(new Augmenter().augment(driver))) {
      inspector.onConsoleEntry(entry -> {});
      driver.manage().timeouts().scriptTimeout(Duration.ofMinutes(10));
      driver.get(Sessions.site + "/start.html");
      if (number % 2 == 1) {
        driver.executeAsyncScript("document.title = 'never calls back'");
      }
      while (!driver.getCurrentUrl().isEmpty()) {
        Thread.sleep(500);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}

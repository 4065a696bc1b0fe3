package script_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/media/script"
)

// recorded has the steps of a session with two tabs, a frame, a dialog and a password.
const recorded = `{"kind":"tab","tab":"unused"}
{"kind":"tab","tab":"A"}
{"kind":"goto","tab":"A","url":"https://shop.example/"}
{"kind":"click","tab":"A","target":{"by":"role","role":"textbox","name":"Email","count":1,"path":"//input[@id=//label[text()[normalize-space()=\"Email\"]]/@for]"}}
{"kind":"fill","tab":"A","values":["a"],"target":{"by":"role","role":"textbox","name":"Email","count":1,"path":"//input[@id=//label[text()[normalize-space()=\"Email\"]]/@for]"}}
{"kind":"fill","tab":"A","values":["ada@shop.example"],"target":{"by":"role","role":"textbox","name":"Email","count":1,"path":"//input[@id=//label[text()[normalize-space()=\"Email\"]]/@for]"}}
{"kind":"fill","tab":"A","secret":true,"target":{"by":"label","name":"Password","count":1,"path":"#pw"}}
{"kind":"press","tab":"A","key":"Control+Shift+k"}
{"kind":"press","tab":"A","key":"Alt++"}
{"kind":"select","tab":"A","values":["Green"],"target":{"by":"role","role":"combobox","name":"Color","count":1,"path":"#color"}}
{"kind":"check","tab":"A","target":{"by":"role","role":"checkbox","name":"Terms","count":1,"path":"#terms"}}
{"kind":"files","tab":"A","values":["a.png","b.png"],"target":{"by":"testid","name":"photos","count":1,"path":"[data-testid=photos]"}}
{"kind":"set","tab":"A","values":["2026-01-05"],"target":{"by":"placeholder","name":"When","count":1,"path":"#when"}}
{"kind":"click","tab":"A","frames":[{"by":"css","path":"#pay"}],"target":{"by":"role","role":"button","name":"Add","count":3,"index":1,"path":"(//button[normalize-space()=\"Add\"])[2]"}}
{"kind":"dblclick","tab":"A","frames":[{"by":"css","path":"#pay"}],"target":{"by":"role","role":"button","name":"Add","count":3,"index":1,"path":"(//button[normalize-space()=\"Add\"])[2]"}}
{"kind":"accept","tab":"A"}
{"kind":"click","tab":"A","target":{"by":"css","path":"main > div:nth-of-type(2)"}}
{"kind":"tab","tab":"B","opener":"A"}
{"kind":"press","tab":"B","key":"ArrowDown","target":{"by":"text","name":"Help","count":1,"path":"//p"}}
{"kind":"close","tab":"B"}
{"kind":"rightclick","tab":"A","target":{"by":"id","path":"#menu"}}
{"kind":"click","tab":"A","target":{"by":"role","role":"button","name":"In","count":1,"path":"button","shadow":true}}
{"kind":"arrive","tab":"A","url":"https://shop.example/not-the-last-one"}
{"kind":"back","tab":"A"}
{"kind":"tab","tab":"C"}
{"kind":"goto","tab":"C","url":"https://shop.example/end"}
{"kind":"missing"}
{"kind":"arrive","tab":"C","url":"https://shop.example/thanks"}
{"kind":"close","tab":"C"}
{"kind":"close","tab":"A"}
{"kind":"goto","tab":"A","url":"incomp`

const wantTS = `// What was done in a session of svc.
// Set these environment variables to what was typed into password fields: PASSWORD_1.
import { test, expect } from '@playwright/test';

test('session', async ({ page }) => {
  await page.goto('https://shop.example/');
  await page.getByRole('textbox', { name: 'Email', exact: true }).fill('ada@shop.example');
  await page.getByLabel('Password', { exact: true }).fill(process.env.PASSWORD_1!);
  await page.keyboard.press('Control+Shift+k');
  await page.keyboard.press('Alt++');
  await page.getByRole('combobox', { name: 'Color', exact: true }).selectOption({ label: 'Green' });
  await page.getByRole('checkbox', { name: 'Terms', exact: true }).check();
  // The files must be in the current directory.
  await page.getByTestId('photos').setInputFiles(['a.png', 'b.png']);
  await page.getByPlaceholder('When', { exact: true }).fill('2026-01-05');
  // Ambiguous: 3 elements were found in this way; number 2 was used.
  page.once('dialog', dialog => dialog.accept());
  await page.frameLocator('#pay').getByRole('button', { name: 'Add', exact: true }).nth(1).dblclick();
  // The element has no accessible name.
  const page1Promise = page.waitForEvent('popup');
  await page.locator('main > div:nth-of-type(2)').click();
  const page1 = await page1Promise;
  await page1.getByText('Help', { exact: true }).press('ArrowDown');
  await page1.close();
  // The element has no accessible name.
  await page.locator('#menu').click({ button: 'right' });
  await page.getByRole('button', { name: 'In', exact: true }).click();
  await page.goBack();
  const page2 = await page.context().newPage();
  await page2.goto('https://shop.example/end');
  // Steps are missing here: they came too fast, or there were too many.
  await expect(page2).toHaveURL(url => url.href.startsWith('https://shop.example/thanks'));
});
`

const wantPy = `# What was done in a session of svc.
# Set these environment variables to what was typed into password fields: PASSWORD_1.
import os

from playwright.sync_api import Page, sync_playwright


def test_session(page: Page) -> None:
    page.goto("https://shop.example/")
    page.get_by_role("textbox", name="Email", exact=True).fill("ada@shop.example")
    page.get_by_label("Password", exact=True).fill(os.environ["PASSWORD_1"])
    page.keyboard.press("Control+Shift+k")
    page.keyboard.press("Alt++")
    page.get_by_role("combobox", name="Color", exact=True).select_option(label="Green")
    page.get_by_role("checkbox", name="Terms", exact=True).check()
    # The files must be in the current directory.
    page.get_by_test_id("photos").set_input_files(["a.png", "b.png"])
    page.get_by_placeholder("When", exact=True).fill("2026-01-05")
    # Ambiguous: 3 elements were found in this way; number 2 was used.
    page.once("dialog", lambda dialog: dialog.accept())
    page.frame_locator("#pay").get_by_role("button", name="Add", exact=True).nth(1).dblclick()
    # The element has no accessible name.
    with page.expect_popup() as page1_info:
        page.locator("main > div:nth-of-type(2)").click()
    page1 = page1_info.value
    page1.get_by_text("Help", exact=True).press("ArrowDown")
    page1.close()
    # The element has no accessible name.
    page.locator("#menu").click(button="right")
    page.get_by_role("button", name="In", exact=True).click()
    page.go_back()
    page2 = page.context.new_page()
    page2.goto("https://shop.example/end")
    # Steps are missing here: they came too fast, or there were too many.
    page2.wait_for_url(lambda url: url.startswith("https://shop.example/thanks"))


if __name__ == "__main__":
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch()
        test_session(browser.new_page())
        browser.close()
`

const wantSelenium = `# What was done in a session of svc.
# Set these environment variables to what was typed into password fields: PASSWORD_1.
import os

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support import expected_conditions as EC
from selenium.webdriver.support.ui import Select, WebDriverWait


def run(driver: webdriver.Remote) -> None:
    wait = WebDriverWait(driver, 10)

    def find(by, selector):
        return wait.until(EC.element_to_be_clickable((by, selector)))

    def set_value(field, value):
        driver.execute_script(
            "arguments[0].value = arguments[1];"
            "for (const name of ['input', 'change']) arguments[0].dispatchEvent(new Event(name, {bubbles: true}));",
            field,
            value,
        )

    page = driver.current_window_handle
    driver.get("https://shop.example/")
    field = find(By.XPATH, "//input[@id=//label[text()[normalize-space()=\"Email\"]]/@for]")
    field.clear()
    field.send_keys("ada@shop.example")
    field = find(By.CSS_SELECTOR, "#pw")
    field.clear()
    field.send_keys(os.environ["PASSWORD_1"])
    driver.switch_to.active_element.send_keys(Keys.CONTROL, Keys.SHIFT, "k")
    driver.switch_to.active_element.send_keys(Keys.ALT, "+")
    choice = Select(find(By.CSS_SELECTOR, "#color"))
    choice.select_by_visible_text("Green")
    box = find(By.CSS_SELECTOR, "#terms")
    if box.is_selected() is False:
        box.click()
    # The files must be in the current directory.
    files = [os.path.abspath(name) for name in ["a.png", "b.png"]]
    wait.until(EC.presence_of_element_located((By.CSS_SELECTOR, "[data-testid=photos]"))).send_keys("\n".join(files))
    set_value(find(By.CSS_SELECTOR, "#when"), "2026-01-05")
    # Ambiguous: 3 elements were found in this way; number 2 was used.
    wait.until(EC.frame_to_be_available_and_switch_to_it((By.CSS_SELECTOR, "#pay")))
    ActionChains(driver).double_click(find(By.XPATH, "(//button[normalize-space()=\"Add\"])[2]")).perform()
    wait.until(EC.alert_is_present()).accept()
    driver.switch_to.default_content()
    windows = driver.window_handles
    find(By.CSS_SELECTOR, "main > div:nth-of-type(2)").click()
    wait.until(EC.new_window_is_opened(windows))
    page1 = next(window for window in driver.window_handles if window not in windows)
    driver.switch_to.window(page1)
    find(By.XPATH, "//p").send_keys(Keys.ARROW_DOWN)
    driver.close()
    driver.switch_to.window(page)
    ActionChains(driver).context_click(find(By.CSS_SELECTOR, "#menu")).perform()
    # The element is in a shadow root, where Selenium does not find it in this way.
    find(By.CSS_SELECTOR, "button").click()
    driver.back()
    driver.switch_to.new_window("tab")
    page2 = driver.current_window_handle
    driver.get("https://shop.example/end")
    # Steps are missing here: they came too fast, or there were too many.
    wait.until(EC.url_contains("https://shop.example/thanks"))


def test_session() -> None:
    driver = webdriver.Chrome()
    try:
        run(driver)
    finally:
        driver.quit()


if __name__ == "__main__":
    test_session()
`

func TestMake_WritesScriptsAsUsersDo(t *testing.T) {
	steps, err := script.Read(strings.NewReader(recorded))
	if err != nil {
		t.Fatal(err)
	}
	for language, want := range map[script.Language]string{script.PlaywrightTS: wantTS, script.PlaywrightPy: wantPy, script.SeleniumPy: wantSelenium} {
		if diff := cmp.Diff(want, script.Make(language, steps)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", language, diff)
		}
	}
}

// TestMake_EscapesHostileTexts has texts of pages in all places of steps, and expects them in literals only.
func TestMake_EscapesHostileTexts(t *testing.T) {
	const hostile = "a'b\"c\\d*/e${f}g`h\ni\rj\u2028k\u2029l\u202em#{n}\x00o</script>\U000e0001"
	target := &script.Locator{Way: script.ByRole, Role: hostile, Name: hostile, Count: 2, Path: "#" + hostile}
	frames := []script.Locator{{Path: hostile}}
	steps := []script.Step{{Kind: script.Goto, Tab: hostile, URL: hostile}, {Kind: script.Press, Tab: hostile, Key: hostile}}
	for _, kind := range []script.Kind{script.Click, script.Fill, script.Set, script.Select, script.Files, script.Check} {
		for _, way := range []script.Way{script.ByRole, script.ByTestID, script.ByLabel, script.ByPlaceholder, script.ByText, script.ByID, script.ByCSS} {
			located := *target
			located.Way = way
			steps = append(steps, script.Step{Kind: kind, Tab: hostile, Frames: frames, Target: &located, Values: []string{hostile}})
		}
	}
	for language, want := range map[script.Language]string{
		script.PlaywrightTS: `a\'b"c\\d*/e${f}g` + "`" + `h\ni\u000dj\u2028k\u2029l\u202em#{n}\u0000o</script>\udb40\udc01`,
		script.PlaywrightPy: `a'b\"c\\d*/e${f}g` + "`" + `h\ni\u000dj\u2028k\u2029l\u202em#{n}\u0000o</script>\U000e0001`,
		script.SeleniumPy:   `a'b\"c\\d*/e${f}g` + "`" + `h\ni\u000dj\u2028k\u2029l\u202em#{n}\u0000o</script>\U000e0001`,
	} {
		text := script.Make(language, steps)
		mark := map[bool]string{true: "'", false: `"`}[language == script.PlaywrightTS]
		if !strings.Contains(text, mark+want+mark) {
			t.Errorf("%s has no %s", language, want)
		}
		rest := strings.ReplaceAll(text, want, "")
		for _, part := range []string{"${f}", "*/", "\u2028", "\u2029", "\u202e", "\r", "\x00", "</script>", "d*", "m#"} {
			if strings.Contains(rest, part) {
				t.Errorf("%s has %q outside of the literal", language, part)
			}
		}
	}
}

// TestMake_HidesMaskedValues reads steps whose value a recording has hidden.
func TestMake_HidesMaskedValues(t *testing.T) {
	steps, err := script.Read(strings.NewReader(`{"kind":"fill","tab":"A","values":["user-***"],"target":{"by":"id","path":"#a"}}` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, language := range []script.Language{script.PlaywrightTS, script.PlaywrightPy, script.SeleniumPy} {
		if text := script.Make(language, steps); strings.Contains(text, "***") || !strings.Contains(text, "PASSWORD_1") {
			t.Errorf("%s: %s", language, text)
		}
		if text := script.Make(language, nil); strings.Contains(text, "import os") || strings.Contains(text, "PASSWORD") {
			t.Errorf("%s without steps: %s", language, text)
		}
	}
	if _, err := script.Read(strings.NewReader("damaged\n")); err == nil {
		t.Error("no error for a damaged file")
	}
	if raw, err := json.Marshal(steps[0]); err != nil || !strings.Contains(string(raw), `"path":"#a"`) {
		t.Errorf("a step is %s, %v", raw, err)
	}
}

package script

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/lazy"
)

// selenium writes code for Selenium in Python.
type selenium struct {
	lines        []string
	page, frames string // where the driver is
}

func (s *selenium) add(format string, arguments ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, arguments...))
}

// selector returns the arguments that find an element.
func selector(l Locator) string {
	if strings.HasPrefix(l.Path, "/") || strings.HasPrefix(l.Path, "(") {
		return "By.XPATH, " + quotePy(l.Path)
	}
	return "By.CSS_SELECTOR, " + quotePy(l.Path)
}

// enter switches to the tab and the frame of a step.
func (s *selenium) enter(a action) {
	if s.page != a.page {
		s.add("driver.switch_to.window(%s)", a.page)
		s.page, s.frames = a.page, ""
	}
	frames := ""
	for _, frame := range a.Frames {
		frames += selector(frame) + "\n"
	}
	if frames == s.frames {
		return
	}
	if s.frames != "" {
		s.add("driver.switch_to.default_content()")
	}
	for _, frame := range a.Frames {
		s.add("wait.until(EC.frame_to_be_available_and_switch_to_it((%s)))", selector(frame))
	}
	s.frames = frames
}

// keyName matches the names of keys without a character.
var keyName = lazy.Regexp(`^([A-Z][A-Za-z]+|F[0-9]+)$`)

// keys returns the arguments that press a key with its modifiers.
func keys(key string) string {
	var list []string
	for name := range strings.SplitSeq(strings.TrimSuffix(key, "+"), "+") { // the last key can be a +
		if keyName().MatchString(name) {
			list = append(list, "Keys."+strings.ToUpper(strings.TrimPrefix(upper().ReplaceAllString(name, "_$0"), "_")))
		} else {
			list = append(list, quotePy(cmp.Or(name, "+")))
		}
	}
	return strings.Join(list, ", ")
}

// step adds the lines of a step.
func (s *selenium) step(a action) {
	if note := a.note(false); note != "" {
		s.add("# %s", note)
	}
	switch a.Kind {
	case Missing:
		return
	case Tab:
		s.add(`driver.switch_to.new_window("tab")`)
		s.add("%s = driver.current_window_handle", a.page)
		s.page, s.frames = a.page, ""
		return
	}
	s.enter(a)
	if a.opens != "" {
		s.add("windows = driver.window_handles")
	}
	s.do(a)
	for _, d := range a.dialogs {
		s.add("wait.until(EC.alert_is_present()).%s()", d)
	}
	if a.opens != "" {
		s.add("wait.until(EC.new_window_is_opened(windows))")
		s.add("%s = next(window for window in driver.window_handles if window not in windows)", a.opens)
	}
}

// do adds the lines that do a step in its frame.
func (s *selenium) do(a action) {
	find := ""
	if a.Target != nil {
		find = "find(" + selector(*a.Target) + ")"
	}
	values := []string{`os.environ["` + a.secret + `"]`}
	if a.secret == "" {
		values = nil
		for _, value := range a.Values {
			values = append(values, quotePy(value))
		}
	}
	switch a.Kind {
	case Goto:
		s.add("driver.get(%s)", quotePy(a.URL))
		s.frames = ""
	case Arrive:
		s.add("wait.until(EC.url_contains(%s))", quotePy(a.URL))
	case Back, Forward:
		s.add("driver.%s()", a.Kind)
		s.frames = ""
	case Reload:
		s.add("driver.refresh()")
		s.frames = ""
	case Close:
		s.add("driver.close()")
		s.page, s.frames = "", ""
	case Click:
		s.add("%s.click()", find)
	case DoubleClick:
		s.add("ActionChains(driver).double_click(%s).perform()", find)
	case RightClick:
		s.add("ActionChains(driver).context_click(%s).perform()", find)
	case MiddleClick:
		s.add("ActionChains(driver).key_down(Keys.CONTROL).click(%s).key_up(Keys.CONTROL).perform()", find)
	case Fill:
		s.add("field = %s", find)
		s.add("field.clear()")
		s.add("field.send_keys(%s)", values[0])
	case Set:
		s.add("set_value(%s, %s)", find, values[0])
	case Select:
		s.add("choice = Select(%s)", find)
		if a.Target.Role == "listbox" {
			s.add("choice.deselect_all()")
		}
		for _, value := range values {
			s.add("choice.select_by_visible_text(%s)", value)
		}
	case Check, Uncheck:
		s.add("box = %s", find)
		s.add("if box.is_selected() is %s:", map[Kind]string{Check: "False", Uncheck: "True"}[a.Kind])
		s.add("    box.click()")
	case Files:
		s.add("files = [os.path.abspath(name) for name in [%s]]", strings.Join(values, ", "))
		s.add(`wait.until(EC.presence_of_element_located((%s))).send_keys("\n".join(files))`, selector(*a.Target))
	case Press:
		if find == "" {
			find = "driver.switch_to.active_element"
		}
		s.add("%s.send_keys(%s)", find, keys(a.Key))
	}
}

// seleniumSet sets the value of a field into which no text is typed.
const seleniumSet = `
    def set_value(field, value):
        driver.execute_script(
            "arguments[0].value = arguments[1];"
            "for (const name of ['input', 'change']) arguments[0].dispatchEvent(new Event(name, {bubbles: true}));",
            field,
            value,
        )
`

const seleniumPy = `
def run(driver: webdriver.Remote) -> None:
    wait = WebDriverWait(driver, 10)

    def find(by, selector):
        return wait.until(EC.element_to_be_clickable((by, selector)))
%s
%s

def test_session() -> None:
    driver = webdriver.Chrome()
    try:
        run(driver)
    finally:
        driver.quit()


if __name__ == "__main__":
    test_session()
`

func seleniumScript(actions []action) string {
	s := &selenium{page: "page"}
	if slices.ContainsFunc(actions, func(a action) bool { return a.page != "page" && a.page != "" }) {
		s.add("page = driver.current_window_handle")
	}
	for _, a := range actions {
		s.step(a)
	}
	lines, helpers := indented("    ", body(s.lines)), ""
	if strings.Contains(lines, "set_value(") {
		helpers = seleniumSet
	}
	head := preface("#", actions)
	for _, line := range []struct{ name, text string }{
		{"os.", "import os\n\n"},
		{"", "from selenium import webdriver\n"},
		{"ActionChains(", "from selenium.webdriver.common.action_chains import ActionChains\n"},
		{"By.", "from selenium.webdriver.common.by import By\n"},
		{"Keys.", "from selenium.webdriver.common.keys import Keys\n"},
		{"", "from selenium.webdriver.support import expected_conditions as EC\n"},
		{"Select(", "from selenium.webdriver.support.ui import Select, WebDriverWait\n\n"},
	} {
		switch {
		case strings.Contains(lines, line.name):
			head += line.text
		case line.name == "Select(":
			head += "from selenium.webdriver.support.ui import WebDriverWait\n\n"
		}
	}
	return head + fmt.Sprintf(seleniumPy, helpers, lines)
}

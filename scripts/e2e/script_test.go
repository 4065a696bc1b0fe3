package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/sharedapi"
)

// hostileName is the name of a button.
const hostileName = "It's \"a\" \\ */ ${1+1} `x` #{y} \u2028 \u202e end"

const orderPage = `<!doctype html><meta charset=utf-8><title>Shop</title><form method=post action=/order>
<p><label for=email>Email</label> <input id=email name=email>
<p><label for=password>Password</label> <input id=password name=password type=password>
<p><label for=color>Color</label> <select id=color name=color><option value=r>Red<option value=g>Green</select>
<p><input type=checkbox id=terms name=terms> <label for=terms>I accept the <b>terms</b></label>
<ul><li>Apples <button type=button onclick="note('apples')">Add</button><li>Pears <button type=button onclick="note('pears')">Add</button></ul>
<p><button type=button id=hostile onclick="note('hostile')"></button> <a id=help href=/help target=_blank rel=opener>Help</a>
<button type=button id=coupon onclick="if (confirm('Use it?')) note('coupon')">Coupon</button>
<p><iframe src=http://%s/pay title=Payment width=400 height=100></iframe>
<input type=hidden name=events id=events><p><button id=buy>Buy <b>now</b></button></form>
<script>
function note(what) { document.getElementById('events').value += what + ' ' }
addEventListener('message', e => note(e.data));
document.getElementById('hostile').ariaLabel = %s;
document.getElementById('hostile').textContent = 'Hostile';
</script>`

// orders is a shop, with the orders that it got.
type orders struct {
	mu  sync.Mutex
	got []url.Values
}

func (o *orders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	switch r.URL.Path {
	case "/":
		_, _ = fmt.Fprintf(w, orderPage, strings.Replace(r.Host, "127.0.0.1", "localhost", 1), "'"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(hostileName)+"'")
	case "/pay":
		_, _ = fmt.Fprint(w, `<label>Card <input></label><button onclick="parent.postMessage('paid-' + document.querySelector('input').value, '*')">Pay</button>`)
	case "/help":
		_, _ = fmt.Fprint(w, `<title>Help</title><button onclick="fetch('/helped', {method: 'POST'}).then(close)">Got it</button>`)
	case "/order", "/helped":
		_ = r.ParseForm()
		o.mu.Lock()
		defer o.mu.Unlock()
		o.got = append(o.got, r.PostForm)
		_, _ = fmt.Fprintf(w, `<title>Thank you</title><body>Ordered`)
	}
}

// take returns the orders since the last call.
func (o *orders) take() (got []url.Values) {
	o.mu.Lock()
	defer o.mu.Unlock()
	got, o.got = o.got, nil
	return got
}

// TestScript_RunsAgain records what a program and a person do in a shop, and runs the scripts of all languages in other browsers.
func TestScript_RunsAgain(t *testing.T) {
	t.Parallel()
	installClients(t, "sdk")
	env, site := newTestEnv(t), &orders{}
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	request := env.newLaunchRequest(t, true)
	request.Browser.Record = &sharedapi.RecordedParts{"trace"}
	for _, who := range []string{"program", "person"} {
		t.Run(who, func(t *testing.T) {
			session, password := env.worker.launch(t, request), "planted-"+uuid.NewString()
			given := map[string]any{"endpoint": *session.WebSocketDebuggerUrl, "url": server.URL, "password": password}
			if who == "person" {
				address, err := url.Parse(*session.ViewUrl)
				if err != nil {
					t.Fatal(err)
				}
				given["token"] = address.Query().Get("ct")
				given["view"] = "ws" + strings.TrimPrefix(env.worker.url, "http") + "/browsers/" + session.LaunchId.String() + "/vnc"
			}
			var result any
			runScript(t, "order", given, &result)
			want := site.take()
			order := want[max(len(want)-1, 0):]
			if len(order) != 1 || order[0].Get("password") != password || order[0].Get("color") != "g" || order[0].Get("terms") != "on" || !strings.HasPrefix(order[0].Get("events"), "pears hostile paid-4711") {
				t.Fatalf("the shop got %v", want)
			}
			env.worker.killSession(t, session.Id)
			env.recordedPart(t, session, "trace") // the recording has ended
			scripts := map[string]string{}
			for _, language := range []string{"playwright-ts", "playwright-py", "selenium-py"} {
				scripts[language] = env.recordedPart(t, session, "script?language="+language)
				if strings.Contains(scripts[language], password) {
					t.Errorf("%s has the password", language)
				}
			}
			for language, text := range scripts {
				out, err := runRecorded(t, language, text, password)
				if err != nil {
					t.Errorf("%s: %v\n%s\n%s", language, err, out, text)
				}
				if diff := cmp.Diff(want, site.take()); diff != "" {
					t.Errorf("%s orders something else (-want +got):\n%s\n%s", language, diff, text)
				}
			}
		})
	}
}

// runRecorded runs a script as users do, with the browser of the machine.
func runRecorded(t *testing.T, language, text, password string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	driver, err := exec.LookPath("chromedriver")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := filepath.Abs(filepath.Join(root, "scripts", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	python, err := filepath.Abs(filepath.Join(root, "bin", "clients-sdk", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	command, files := []string{python, "-m", "pytest", "-q", "-p", "no:cacheprovider"}, map[string]string{
		"playwright-ts": "session.spec.ts", "playwright-py": "test_session.py", "selenium-py": "test_session.py",
	}
	settings, configuration := "conftest.py", ""
	switch language {
	case "playwright-ts":
		command, settings = []string{"node", filepath.Join(modules, "@playwright", "test", "cli.js"), "test"}, "playwright.config.ts"
		configuration = `export default { timeout: 60_000, use: { launchOptions: { executablePath: ` + fmt.Sprintf("%q", chromium) + `, args: ['--no-sandbox'] } } }`
	case "playwright-py":
		configuration = fmt.Sprintf(`
import pytest
from playwright.sync_api import sync_playwright

@pytest.fixture
def page():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=%q, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()
`, chromium)
	case "selenium-py":
		configuration = fmt.Sprintf(`
from selenium import webdriver

chrome, options = webdriver.Chrome, webdriver.ChromeOptions()
options.binary_location = %q
for argument in ["--headless", "--no-sandbox"]:
    options.add_argument(argument)
webdriver.Chrome = lambda: chrome(options, webdriver.ChromeService(%q))
`, chromium, driver)
	}
	for name, content := range map[string]string{settings: configuration, files[language]: text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PASSWORD_1="+password, "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

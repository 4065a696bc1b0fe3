package bundle_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
)

var all = page.Request{Page: 1, Limit: 1 << 20}

func TestLoad_BuiltInBundlesAreConsistent(t *testing.T) {
	set := load(t, nil)
	kinds := make(map[string]int)
	userAgent := regexp.MustCompile(`^Mozilla/5\.0 \([^)]+\) AppleWebKit/537\.36 \(KHTML, like Gecko\) Chrome/156\.0\.0\.0 (Mobile )?Safari/537\.36$`)
	for _, b := range set.List(bundle.Filter{}, []int{156}, all).Items {
		kinds[b.OS+" "+b.WindowsVersion+" "+b.OSArch]++
		if !userAgent.MatchString(b.UserAgent) {
			t.Errorf("%s: user agent %q", b.Filename, b.UserAgent)
		}
		if b.Name == "" || b.Renderer == "" || b.GPUName == "" || b.Screen == nil || b.DeviceScaleFactor == 0 {
			t.Errorf("%s lacks required fields: %+v", b.Filename, b)
		}
		if mobile := b.OS == "android"; settings.Enabled(b.IsMobile) != mobile || mobile != (b.Model != "") || mobile != (b.Viewport != nil) ||
			mobile && (!settings.Enabled(b.HasTouch) || b.Viewport.Width != b.Screen.Width || !strings.Contains(b.UserAgent, "(Linux; Android 10; K)")) {
			t.Errorf("%s is neither a device nor a desktop: %+v", b.Filename, b)
		}
	}
	want := map[string]int{"windows 7 x86": 1, "windows 10 x86": 1, "windows 11 x86": 2, "windows 11 arm": 1,
		"macos  x86": 1, "macos  arm": 1, "linux  x86": 1, "linux  arm": 1, "android  arm": 18}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

func TestLoad_AddsDirectory(t *testing.T) {
	dir := dirOf(t, map[string]string{
		"full.json": `{"name": "Full", "browserVersion": 150, "os": "android", "osVersion": "14", "osArch": "arm", "renderer": "R", "gpuName": "G",
			"model": "M", "userAgent": "Agent {major} of {major}", "viewport": {"width": 400, "height": 700}, "screen": {"width": 400, "height": 800},
			"deviceScaleFactor": 2.5, "isMobile": true, "hasTouch": true, "locale": "de-DE", "timezoneId": "Europe/Berlin", "colorScheme": "dark"}`,
		"..data/linked.json": `{"name": "Linked", "os": "windows", "windowsVersion": "7"}`,
		"README.md":          "not a bundle", ".hidden.json": "{", "below/other.json": "{",
	})
	if err := os.Symlink("..data/linked.json", filepath.Join(dir, "linked.json")); err != nil {
		t.Fatal(err)
	}
	set, err := bundle.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	full := bundle.Bundle{
		Filename: "full.json", Name: "Full", BrowserVersion: 150, OS: "android",
		Identity: settings.Identity{OSVersion: "14", OSArch: "arm", Renderer: "R", GPUName: "G", Model: "M"},
		Emulation: settings.Emulation{
			UserAgent: "Agent 150 of 150", Viewport: &settings.Size{Width: 400, Height: 700}, Screen: &settings.Size{Width: 400, Height: 800},
			DeviceScaleFactor: 2.5, IsMobile: new(true), HasTouch: new(true), Locale: "de-DE", TimezoneID: "Europe/Berlin", ColorScheme: "dark",
		},
	}
	linked := bundle.Bundle{Filename: "linked.json", Name: "Linked", BrowserVersion: 150, OS: "windows", Identity: settings.Identity{WindowsVersion: "7"}}
	for _, want := range []bundle.Bundle{full, linked} {
		got := set.List(bundle.Filter{Filename: want.Filename}, []int{150}, all).Items
		if diff := cmp.Diff([]bundle.Bundle{want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Filename, diff)
		}
	}
	if more, builtIn := set.List(bundle.Filter{}, []int{150}, all).Total, load(t, nil).List(bundle.Filter{}, []int{150}, all).Total; more != builtIn+2 {
		t.Errorf("%d bundles, %d of them built in, want two more", more, builtIn)
	}
}

// unknown is the error message for an unknown field.
const unknown = " is unknown; the fields are browserVersion, colorScheme, deviceScaleFactor, forcedColors, gpuName, hasTouch, isMobile, " +
	"locale, model, name, os, osArch, osVersion, reducedMotion, renderer, screen, timezoneId, userAgent, viewport, windowsVersion"

// wrong is a bundle file and its expected errors.
var wrong = []struct{ content, want string }{
	{`{}`, "name is required|os is required"},
	{`[]`, "must be a JSON object"},
	{``, "must be a JSON object"},
	{`null`, "must be a JSON object"},
	{`{"name": "A", "os": "linux"} {}`, "has data after its end"},
	{`{"name": "A", "os": "linux"`, "is not JSON: EOF"},
	{"{\"name\": \"\xff\", \"os\": \"linux\"}", "is not UTF-8"},
	{`{"name": "A", "name": "B", "os": "linux"}`, "name is a duplicate"},
	{`{"name": "A", "os": null, "Os": "linux"}`, "os must not be null: omit it|Os" + unknown},
	{`{"name": "A", "os": "linux", "filename": "b.json", "a\nb": 1}`, "filename" + unknown + `|"a\nb"` + unknown},
	{`{"name": "", "os": "Linux"}`, "name must have from 1 to 128 characters|os must be one of windows, macos, linux, android"},
	{`{"name": "a\u0000b", "os": "beos", "windowsVersion": "8", "osArch": "x64"}`, "name must have printable characters only|" +
		"os must be one of windows, macos, linux, android|windowsVersion must be one of 7, 10, 11|osArch must be one of x86, arm"},
	{`{"name": 1, "os": [], "osVersion": {}, "renderer": true}`, "name must be a string|os must be a string|osVersion must be a string|renderer must be a string"},
	{`{"name": "A", "os": "linux", "browserVersion": "156"}`, "browserVersion must be a whole number"},
	{`{"name": "A", "os": "linux", "browserVersion": 156.5}`, "browserVersion must be a whole number"},
	{`{"name": "A", "os": "linux", "browserVersion": 0}`, "browserVersion must be from 1 to 9999"},
	{`{"name": "A", "os": "linux", "deviceScaleFactor": 9, "isMobile": 1, "hasTouch": "yes"}`,
		"deviceScaleFactor must be from 0.25 to 8|isMobile must be true or false|hasTouch must be true or false"},
	{`{"name": "A", "os": "linux", "deviceScaleFactor": "2", "osVersion": "` + strings.Repeat("1", 33) + `"}`,
		"deviceScaleFactor must be a number|osVersion must have from 1 to 32 characters"},
	{`{"name": "A", "os": "linux", "viewport": {"width": 99, "heigth": 100}, "screen": 5}`,
		"viewport.width must be from 100 to 10000|viewport.heigth is unknown; the fields are height, width|viewport.height is required|screen must be a JSON object"},
	{`{"name": "A", "os": "linux", "viewport": {"width": 500, "height": 500}, "screen": {"width": 500, "height": 499}}`, "viewport is larger than the screen"},
	{`{"name": "A", "os": "linux", "userAgent": "Chrome/{version}", "model": "M", "windowsVersion": "11"}`,
		"userAgent must not have a placeholder other than {major}|windowsVersion requires os windows|model requires os android"},
	{`{"name": "A", "os": "linux", "userAgent": "Grüße", "locale": "deutsch!", "timezoneId": "Mars/Base", "colorScheme": "blue"}`,
		"userAgent must be printable ASCII|locale must be a language tag, for example de-DE|timezoneId is an unknown time zone|" +
			"colorScheme must be one of light, dark, no-preference"},
}

func TestLoad_ReportsAllErrors(t *testing.T) {
	files := map[string]string{"good.json": `{"name": "A", "os": "linux"}`}
	var want []string
	for i, c := range wrong {
		name := fmt.Sprintf("wrong%02d.json", i)
		files[name] = c.content
		for message := range strings.SplitSeq(c.want, "|") {
			want = append(want, name+": "+message)
		}
	}
	set, err := bundle.Load(dirOf(t, files))
	if err == nil {
		t.Fatalf("loaded %d bundles", set.List(bundle.Filter{}, []int{1}, all).Total)
	}
	got := strings.Split(err.Error(), "\n")[1:]
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if problem, ok := errors.AsType[bundle.FileError](err); !ok || !strings.HasPrefix(problem.File, "wrong") {
		t.Errorf("the error contains no FileError: %v", err)
	}
}

func TestLoad_RefusesUnusableFiles(t *testing.T) {
	good := `{"name": "A", "os": "linux"}`
	outside := filepath.Join(dirOf(t, map[string]string{"outside.json": good}), "outside.json")
	dir := dirOf(t, map[string]string{
		"pixel-9.json": good, "twice.json": good, "Twice.json": good, "two words.json": good,
		"large.json": good + strings.Repeat(" ", 64<<10), "upper.JSON": good,
	})
	if err := os.Symlink(outside, filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := bundle.Load(dir)
	for _, want := range []string{
		"pixel-9.json: has the same name as another bundle", "twice.json: has the same name as another bundle",
		"two words.json: must have a name of letters", "upper.JSON: must have a name of letters", "large.json: is larger than 65536 bytes",
		"link.json: cannot be read", "path escapes", "pipe.json: is not a file",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q: %v", want, err)
		}
	}
	if err != nil && strings.Count(err.Error(), "\n") != 7 {
		t.Errorf("seven problems, got %v", err)
	}
	if _, err := bundle.Load(outside); err == nil {
		t.Errorf("loaded %s", outside)
	}
	if _, err := bundle.Load(filepath.Join(dir, "nowhere")); err != nil {
		t.Errorf("a missing directory: %v", err)
	}
}

func TestLoad_RefusesTooManyFiles(t *testing.T) {
	files := make(map[string]string)
	for i := range 1001 {
		files[fmt.Sprintf("%d.json", i)] = `{"name": "A", "os": "linux"}`
	}
	if _, err := bundle.Load(dirOf(t, files)); err == nil || !strings.Contains(err.Error(), "1001 files") {
		t.Errorf("got %v", err)
	}
}

package builds_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

func TestDriverFinder_ChoosesFittingVersion(t *testing.T) {
	b := newBuildDir(t)
	b.add("beside/chrome", "Chromium 100.0.4896.60")
	b.add("beside/chromedriver", "ChromeDriver 100.0.4896.20 (abc-refs/heads/100)")
	b.add("alone/chrome", "Chromium 100.0.4896.60")
	b.add("set/chromedriver", "ChromeDriver 100.0.1111.1 (abc)")
	b.add("path/chromedriver", "ChromeDriver 101.0.4896.20 (abc)")
	b.add("broken/chromedriver", "fail")
	t.Setenv("PATH", b.path("path"))
	for name, tc := range map[string]struct {
		configured, build string
		major             int
		want, problem     string
	}{
		"beside the build":      {"set/chromedriver", "beside", 100, "beside/chromedriver", ""},
		"other version beside":  {"", "beside", 101, "path/chromedriver", ""},
		"configured":            {"set/chromedriver", "alone", 100, "set/chromedriver", ""},
		"in PATH":               {"", "alone", 101, "path/chromedriver", ""},
		"configured, not PATH":  {"set/chromedriver", "alone", 101, "", "found only version 100.0.1111.1"},
		"configured and broken": {"broken/chromedriver", "alone", 101, "", "none is installed"},
		"configured, missing":   {"missing", "alone", 101, "", "none is installed"},
	} {
		configured := tc.configured
		if configured != "" {
			configured = b.path(configured)
		}
		f := builds.NewDriverFinder(configured, builds.FindOptions{})
		got, err := f.Find(t.Context(), builds.Build{Major: tc.major, Path: b.path(tc.build + "/chrome")})
		if tc.want != "" {
			if err != nil || got != b.path(tc.want) {
				t.Errorf("%s: %s, %v", name, got, err)
			}
			continue
		}
		if missing, ok := errors.AsType[*builds.NoDriverError](err); !ok || missing.Major != tc.major || !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestDriverFinder_QueriesChangedFileAgain(t *testing.T) {
	b := newBuildDir(t)
	b.add("chromedriver", "ChromeDriver 100.0.4896.20 (abc)")
	f := builds.NewDriverFinder(b.path("chromedriver"), builds.FindOptions{})
	build := builds.Build{Major: 100, Path: "/nonexistent/chrome"}
	for range 3 {
		if _, err := f.Find(t.Context(), build); err != nil {
			t.Fatal(err)
		}
	}
	if runs := b.runs("chromedriver"); runs != 1 {
		t.Errorf("chromedriver was run %d times", runs)
	}
	b.add("chromedriver", "ChromeDriver 101.0.4896.20 (abc)")
	if _, err := f.Find(t.Context(), build); err == nil {
		t.Error("an old version was returned")
	}
}

package browser_test

import (
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser"
)

func TestChoose_PrefersHighestCapableVersion(t *testing.T) {
	build := func(major int, version, path string, whole bool) browser.Build {
		return browser.Build{Major: major, Version: version, Path: path, Headful: whole, DevTools: whole}
	}
	builds := []browser.Build{
		build(150, "150.0.7871.100", "whole 150", true),
		build(153, "153.0.8010.9", "shell 153.9", false),
		build(153, "153.0.8010.10", "shell 153.10", false),
		build(153, "153.0.8010.9", "whole 153.9", true),
		build(153, "153.0.8010.9", "whole 153.9 again", true),
		build(156, "156.0.8078.79", "shell 156", false),
	}
	for _, c := range []struct {
		name    string
		major   int
		headful bool
		want    string
	}{
		{"any version, any build", 0, false, "shell 156"},
		{"any version, a window", 0, true, "whole 153.9"},
		{"numbers compare as numbers", 153, false, "shell 153.10"},
		{"a shell shows no window", 153, true, "whole 153.9"},
		{"one major", 150, false, "whole 150"},
		{"not installed", 151, false, ""},
		{"installed, but headless only", 156, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := browser.Choose(builds, c.major, browser.Needs{Headful: c.headful})
			if got.Path != c.want || ok != (c.want != "") {
				t.Errorf("got %q, %v, want %q", got.Path, ok, c.want)
			}
		})
	}
	if got, _ := browser.Choose(builds[:4], 0, browser.Needs{}); got.Path != "shell 153.10" {
		t.Errorf("got %q", got.Path)
	}
	same := []browser.Build{builds[1], builds[3]}
	if got, _ := browser.Choose(same, 153, browser.Needs{}); got.Path != "whole 153.9" {
		t.Errorf("a version installed twice: got %q, want the complete browser", got.Path)
	}
	if builds[0].Path != "whole 150" || builds[5].Path != "shell 156" {
		t.Error("the list was changed")
	}
}

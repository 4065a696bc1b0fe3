package builds_test

import (
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser/builds"
)

func TestChoose_PrefersHighestCapableVersion(t *testing.T) {
	build := func(major int, version, path string, whole bool) builds.Build {
		engine := builds.HeadlessShell
		if whole {
			engine = builds.Chromium
		}
		return builds.Build{Major: major, Version: version, Path: path, Engine: engine, Headful: whole, DevTools: whole, Extensions: whole}
	}
	installed := []builds.Build{
		build(150, "150.0.7871.100", "whole 150", true),
		build(153, "153.0.8010.9", "shell 153.9", false),
		build(153, "153.0.8010.10", "shell 153.10", false),
		build(153, "153.0.8010.9", "whole 153.9", true),
		build(153, "153.0.8010.9", "whole 153.9 again", true),
		build(156, "156.0.8078.79", "shell 156", false),
	}
	for _, c := range []struct {
		name  string
		major int
		needs builds.Needs
		want  string
	}{
		{"any version, any build", 0, builds.Needs{}, "whole 153.9"},
		{"any version, a window", 0, builds.Needs{Headful: true}, "whole 153.9"},
		{"a version as a shell only", 156, builds.Needs{}, "shell 156"},
		{"numbers compare as numbers", 153, builds.Needs{Engine: builds.HeadlessShell}, "shell 153.10"},
		{"any shell", 0, builds.Needs{Engine: builds.HeadlessShell}, "shell 156"},
		{"no shell", 156, builds.Needs{Engine: builds.Chromium}, ""},
		{"a shell shows no window", 153, builds.Needs{Headful: true}, "whole 153.9"},
		{"extensions", 0, builds.Needs{Extensions: true}, "whole 153.9"},
		{"a shell if there is one", 0, builds.Needs{PreferShell: true}, "shell 153.10"},
		{"a shell, but there is none", 150, builds.Needs{PreferShell: true}, "whole 150"},
		{"one major", 150, builds.Needs{}, "whole 150"},
		{"not installed", 151, builds.Needs{}, ""},
		{"installed, but headless only", 156, builds.Needs{Headful: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := builds.Choose(installed, c.major, c.needs)
			if got.Path != c.want || ok != (c.want != "") {
				t.Errorf("got %q, %v, want %q", got.Path, ok, c.want)
			}
		})
	}
	same := []builds.Build{installed[1], installed[3]}
	if got, _ := builds.Choose(same, 153, builds.Needs{}); got.Path != "whole 153.9" {
		t.Errorf("a version installed twice: got %q, want the complete browser", got.Path)
	}
	if installed[0].Path != "whole 150" || installed[5].Path != "shell 156" {
		t.Error("the list was changed")
	}
}

package bundle_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser/bundle"
)

// zoo contains bundles in addition to the built-in ones, with distinct names and
// texts.
var zoo = map[string]string{
	"zoo-ape.json":    `{"name": "Zebra", "os": "linux", "osVersion": "6.10", "osArch": "arm", "renderer": "Quagga 10", "userAgent": "{major}"}`,
	"zoo-bat.json":    `{"name": "Yak", "os": "windows", "windowsVersion": "10", "osVersion": "6.1", "renderer": "QUAGGA 1", "browserVersion": 150}`,
	"zoo-cat.json":    `{"name": "Xerus", "os": "android", "osVersion": "6", "model": "QG-1 Pro", "gpuName": "Quagga GPU", "browserVersion": 151}`,
	"zoo-cat-2.json":  `{"name": "Xerus 2", "os": "android", "osVersion": "6", "model": "QG-1", "renderer": "quagga", "browserVersion": 99}`,
	"other-zoo-.json": `{"name": "Wolf", "os": "macos"}`,
}

func TestList_Filters(t *testing.T) {
	set := load(t, zoo)
	for _, c := range []struct {
		name   string
		filter bundle.Filter
		want   []string
	}{
		{"by the beginning of the filename", bundle.Filter{Filename: "ZOO-cat"}, []string{"zoo-cat.json 151"}},
		{"by the whole filename", bundle.Filter{Filename: "zoo-bat.json"}, []string{"zoo-bat.json 150"}},
		{"a filter longer than any filename", bundle.Filter{Filename: "zoo-bat.json.json"}, nil},
		{"by version", bundle.Filter{Filename: "zoo-", Criteria: bundle.Criteria{BrowserVersion: 150}}, []string{"zoo-ape.json 150", "zoo-bat.json 150"}},
		{"by a version that is not installed", bundle.Filter{Criteria: bundle.Criteria{BrowserVersion: 99}}, nil},
		{"by system", bundle.Filter{Filename: "zoo-", Criteria: bundle.Criteria{OS: "windows"}}, []string{"zoo-bat.json 150"}},
		{"by Windows version", bundle.Filter{Filename: "zoo-", Criteria: bundle.Criteria{WindowsVersion: "10"}}, []string{"zoo-bat.json 150"}},
		{"a Windows version must match completely", bundle.Filter{Filename: "zoo-", Criteria: bundle.Criteria{WindowsVersion: "1"}}, nil},
		{"by processor", bundle.Filter{Filename: "zoo-", Criteria: bundle.Criteria{OSArch: "arm", BrowserVersion: 151}}, []string{"zoo-ape.json 151"}},
		{"by the system's version", bundle.Filter{Filename: "zoo-", Criteria: bundle.Criteria{OSVersion: "6.1"}}, []string{"zoo-bat.json 150"}},
		{"by the system's major version", bundle.Filter{Filename: "zoo-", Criteria: bundle.Criteria{OSVersion: "6", BrowserVersion: 150}},
			[]string{"zoo-ape.json 150", "zoo-bat.json 150"}},
		{"by renderer", bundle.Filter{Criteria: bundle.Criteria{Renderer: "quagga 1"}},
			[]string{"zoo-ape.json 150", "zoo-ape.json 151", "zoo-bat.json 150"}},
		{"by model", bundle.Filter{Criteria: bundle.Criteria{Model: "qg-1"}}, []string{"zoo-cat.json 151"}},
		{"by a model's display name", bundle.Filter{Criteria: bundle.Criteria{Model: "xerus"}}, []string{"zoo-cat.json 151"}},
		{"the name of a bundle without a model does not match", bundle.Filter{Criteria: bundle.Criteria{Model: "yak"}}, nil},
		{"by graphics processor", bundle.Filter{Criteria: bundle.Criteria{GPUName: "QUAGGA"}}, []string{"zoo-cat.json 151"}},
		{"by several", bundle.Filter{Criteria: bundle.Criteria{Renderer: "quagga", OS: "linux", BrowserVersion: 151}}, []string{"zoo-ape.json 151"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := set.List(c.filter, []int{151, 150, 151}, all)
			if diff := cmp.Diff(c.want, versions(got.Items)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// versions returns the filename and version of each bundle.
func versions(bundles []bundle.Bundle) []string {
	var names []string
	for _, b := range bundles {
		names = append(names, fmt.Sprintf("%s %d", b.Filename, b.BrowserVersion))
	}
	return names
}

func TestList_SortsAndPages(t *testing.T) {
	set := load(t, zoo)
	zooOnly := bundle.Filter{Filename: "zoo-"}
	ape150, ape151, bat, cat := "zoo-ape.json 150", "zoo-ape.json 151", "zoo-bat.json 150", "zoo-cat.json 151"
	for _, c := range []struct {
		request page.Request
		want    []string
	}{
		{page.Request{Page: 1, Limit: 20}, []string{ape150, ape151, bat, cat}},
		{page.Request{Page: 1, Limit: 20, SortBy: "filename", Desc: true}, []string{cat, bat, ape151, ape150}},
		{page.Request{Page: 1, Limit: 20, SortBy: "name"}, []string{cat, bat, ape150, ape151}},
		{page.Request{Page: 1, Limit: 20, SortBy: "name", Desc: true}, []string{ape151, ape150, bat, cat}},
		{page.Request{Page: 1, Limit: 20, SortBy: "browserVersion"}, []string{ape150, bat, ape151, cat}},
		{page.Request{Page: 1, Limit: 3}, []string{ape150, ape151, bat}},
		{page.Request{Page: 2, Limit: 3}, []string{cat}},
		{page.Request{Page: 3, Limit: 3}, nil},
	} {
		got := set.List(zooOnly, []int{150, 151}, c.request)
		if diff := cmp.Diff(c.want, versions(got.Items)); diff != "" || got.Total != 4 || got.Request != c.request || got.Items == nil {
			t.Errorf("%+v: total %d (-want +got):\n%s", c.request, got.Total, diff)
		}
	}
	for _, b := range set.List(bundle.Filter{Filename: "zoo-ape"}, []int{150, 151}, all).Items {
		if b.UserAgent != fmt.Sprint(b.BrowserVersion) {
			t.Errorf("version %d has user agent %q", b.BrowserVersion, b.UserAgent)
		}
	}
	if got := set.List(bundle.Filter{}, nil, all); got.Total != 0 || got.Items == nil {
		t.Errorf("with no browser installed: %v", filenames(got.Items))
	}
}

func TestMatch_PrefersBestMatch(t *testing.T) {
	files := map[string]string{
		"a.json": `{"name": "Any version", "os": "macos", "renderer": "Okapi"}`,
		"b.json": `{"name": "One version", "os": "macos", "renderer": "Okapi", "browserVersion": 150}`,
		"c.json": `{"name": "Exact text", "os": "linux", "renderer": "Oka"}`,
	}
	set := load(t, files)
	for _, c := range []struct {
		name     string
		criteria bundle.Criteria
		want     string
	}{
		{"nothing set", bundle.Criteria{}, ""},
		{"a version alone is no identity", bundle.Criteria{BrowserVersion: 150}, ""},
		{"the first by filename", bundle.Criteria{OS: "windows"}, "windows-10-desktop.json"},
		{"a common processor first", bundle.Criteria{OS: "linux", Renderer: "Mesa"}, "linux-amd64.json"},
		{"one text exactly", bundle.Criteria{Renderer: "oka"}, "c.json"},
		{"one text in part", bundle.Criteria{Renderer: "kap"}, "a.json"},
		{"no version: the bundle of any", bundle.Criteria{Renderer: "okapi"}, "a.json"},
		{"the bundle of that version", bundle.Criteria{Renderer: "okapi", BrowserVersion: 150}, "b.json"},
		{"not that of another", bundle.Criteria{Renderer: "okapi", BrowserVersion: 151}, "a.json"},
		{"the model exactly", bundle.Criteria{Model: "pixel 6"}, "pixel-6.json"},
		{"the model in part", bundle.Criteria{Model: "6 Pro"}, "pixel-6-pro.json"},
		{"the model's display name", bundle.Criteria{OS: "android", Model: "Samsung Galaxy S24"}, "galaxy-s24.json"},
		{"all together", bundle.Criteria{OS: "windows", WindowsVersion: "11", OSArch: "arm", OSVersion: "10.0"}, "windows-11-surface.json"},
		{"one that does not fit", bundle.Criteria{OS: "windows", Model: "Pixel 9"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := set.Match(c.criteria)
			if got.Filename != c.want || ok != (c.want != "") {
				t.Errorf("got %q, %v, want %q", got.Filename, ok, c.want)
			}
		})
	}
}

func TestAndroidModels_FiltersByVersion(t *testing.T) {
	set := load(t, map[string]string{
		"x.json": `{"name": "Google Pixel 9", "os": "android", "model": "Pixel 9", "osVersion": "16", "browserVersion": 150}`,
		"y.json": `{"name": "Google Pixel 9", "os": "android", "model": "Pixel 9", "osVersion": "15"}`,
		"z.json": `{"name": "A tablet without a model", "os": "android"}`,
	})
	type entry struct{ name, version string }
	pixels := func(version int) (found []entry) {
		last := ""
		for _, m := range set.AndroidModels(version) {
			if m.Name < last {
				t.Errorf("%s comes after %s", m.Name, last)
			}
			if last = m.Name; m.Model == "Pixel 9" {
				found = append(found, entry{m.Name, m.OSVersion})
			}
		}
		return found
	}
	both := []entry{{"Google Pixel 9", "15"}, {"Google Pixel 9", "16"}}
	for version, want := range map[int][]entry{0: both, 150: both, 151: both[:1]} {
		if diff := cmp.Diff(want, pixels(version), cmp.AllowUnexported(entry{})); diff != "" {
			t.Errorf("%d (-want +got):\n%s", version, diff)
		}
	}
	want := bundle.Model{Model: "SM-S921B", Name: "Samsung Galaxy S24", OSVersion: "14", DeviceScaleFactor: 3,
		Viewport: &settings.Size{Width: 360, Height: 652}, Screen: &settings.Size{Width: 360, Height: 780}}
	for _, m := range set.AndroidModels(150) {
		if m.Model == want.Model {
			if diff := cmp.Diff(want, m); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			return
		}
	}
	t.Error("the Galaxy S24 is missing")
}

func TestByFilename_RequiresCompleteFilename(t *testing.T) {
	set := load(t, zoo)
	for filename, want := range map[string]string{"zoo-cat.json": "Xerus", "ZOO-Cat-2.JSON": "Xerus 2", "zoo-cat": "", "zoo-": "", "": "", "dodo.json": ""} {
		if got, ok := set.ByFilename(filename); got.Name != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", filename, got.Name, ok)
		}
	}
	if names := set.Filenames(); !slices.IsSorted(names) || !slices.Contains(names, "zoo-cat-2.json") || !slices.Contains(names, "pixel-9.json") {
		t.Errorf("the filenames are %v", names)
	}
}

func TestMismatches_ListsUnmetCriteria(t *testing.T) {
	cat, _ := load(t, zoo).ByFilename("zoo-cat.json")
	for _, c := range []struct {
		criteria bundle.Criteria
		want     []bundle.Mismatch
	}{
		{bundle.Criteria{}, nil},
		{bundle.Criteria{OS: "android", OSVersion: "6", Model: "xerus", GPUName: "gpu", BrowserVersion: 151}, nil},
		{bundle.Criteria{OS: "windows", Model: "QG-1", BrowserVersion: 150}, []bundle.Mismatch{{"browserVersion", "151"}, {"os", "android"}}},
		{bundle.Criteria{OSVersion: "6.0", WindowsVersion: "11", OSArch: "arm", Renderer: "quagga", Model: "zebra", GPUName: "okapi"},
			[]bundle.Mismatch{{"osVersion", "6"}, {"windowsVersion", ""}, {"osArch", ""}, {"renderer", ""}, {"model", "QG-1 Pro"}, {"gpuName", "Quagga GPU"}}},
	} {
		if diff := cmp.Diff(c.want, c.criteria.Mismatches(cat)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.criteria, diff)
		}
	}
}

package bundle

import (
	"cmp"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/settings"
)

// Set is all bundles of a worker. It is immutable.
type Set struct {
	bundles []Bundle // by filename
}

// Filter selects bundles for a list: by Criteria, and by the beginning of the
// filename regardless of case.
type Filter struct {
	Filename string `json:"filename"`
	Criteria
}

// List returns the bundles that the filter selects and that can be launched with the
// installed major versions. A bundle for any version is listed once for each, with
// the user agent of that version. The default order is by filename; ties are ordered
// by filename, then version.
func (s *Set) List(filter Filter, installed []int, request page.Request) page.Page[Bundle] {
	majors := slices.Compact(slices.Sorted(slices.Values(installed)))
	found := []Bundle{}
	for _, b := range s.bundles {
		if _, ok := filter.match(b); !ok || !hasPrefixFold(b.Filename, filter.Filename) {
			continue
		}
		for _, major := range majors {
			if b.BrowserVersion != 0 && b.BrowserVersion != major || filter.BrowserVersion != 0 && filter.BrowserVersion != major {
				continue
			}
			found = append(found, b.For(major))
		}
	}
	slices.SortFunc(found, compareBy(request))
	first := min(max(request.Offset(), 0), len(found))
	last := first + min(max(request.Limit, 0), len(found)-first)
	return page.Page[Bundle]{Request: request, Items: slices.Clone(found[first:last]), Total: len(found)}
}

func compareBy(request page.Request) func(a, b Bundle) int {
	return func(a, b Bundle) int {
		by := 0
		switch request.SortBy {
		case "name":
			by = cmp.Compare(a.Name, b.Name)
		case "browserVersion":
			by = cmp.Compare(a.BrowserVersion, b.BrowserVersion)
		}
		by = cmp.Or(by, cmp.Compare(a.Filename, b.Filename), cmp.Compare(a.BrowserVersion, b.BrowserVersion))
		if request.Desc {
			return -by
		}
		return by
	}
}

// Match returns the bundle that matches all criteria. If there are several, it
// returns the one with the most exact matches (the model "Pixel 6" before "Pixel 6
// Pro", an exact version before any), then the first by filename. Criteria without
// an identity match no bundle. Call For on the result.
func (s *Set) Match(criteria Criteria) (Bundle, bool) {
	var best Bundle
	most, found := -1, false
	for _, b := range s.bundles {
		if exact, ok := criteria.match(b); ok && exact > most {
			best, most, found = b, exact, true
		}
	}
	if !found || !criteria.NameIdentity() {
		return Bundle{}, false
	}
	return best, true
}

// ByFilename returns the bundle with a filename, regardless of case.
func (s *Set) ByFilename(filename string) (Bundle, bool) {
	i := slices.IndexFunc(s.bundles, func(b Bundle) bool { return strings.EqualFold(b.Filename, filename) })
	if i < 0 {
		return Bundle{}, false
	}
	return s.bundles[i], true
}

// Filenames returns the filenames of all bundles, sorted.
func (s *Set) Filenames() []string {
	names := []string{}
	for _, b := range s.bundles {
		names = append(names, b.Filename)
	}
	return names
}

// Model is a device. The JSON names are those of the API.
type Model struct {
	Model             string         `json:"model"` // the device's own model name
	Name              string         `json:"name"`  // display name
	OSVersion         string         `json:"osVersion,omitempty"`
	Viewport          *settings.Size `json:"viewport"`
	Screen            *settings.Size `json:"-"`
	DeviceScaleFactor float64        `json:"deviceScaleFactor,omitempty"`
}

// AndroidModels returns the devices for a major version, sorted by name, or all
// devices for 0.
func (s *Set) AndroidModels(version int) []Model {
	models := []Model{}
	for _, b := range s.bundles {
		if b.OS != "android" || b.Model == "" || version != 0 && b.BrowserVersion != 0 && b.BrowserVersion != version {
			continue
		}
		models = append(models, Model{
			Model: b.Model, Name: b.Name, OSVersion: b.OSVersion,
			Viewport: b.Viewport, Screen: b.Screen, DeviceScaleFactor: b.DeviceScaleFactor,
		})
	}
	slices.SortStableFunc(models, func(a, b Model) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Model, b.Model), cmp.Compare(a.OSVersion, b.OSVersion))
	})
	return slices.CompactFunc(models, func(a, b Model) bool {
		return a.Name == b.Name && a.Model == b.Model && a.OSVersion == b.OSVersion
	})
}

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

package bundle

import "strings"

// Criteria describe bundles; the zero value of a field allows any. Systems,
// versions of Windows and processors match as a whole. An OSVersion also
// matches more exact ones (10 matches 10.0.19045). The other texts match
// wherever they occur, whatever the case; Model in the device's own name for
// itself and in the bundle's.
type Criteria struct {
	OS, OSVersion, WindowsVersion, OSArch, Renderer, Model, GPUName string
	BrowserVersion                                                  int
}

// fit reports whether a bundle fits all criteria, and how many of them exactly.
func (c Criteria) fit(b Bundle) (exact int, ok bool) {
	ok = true
	check := func(wanted string, fits func(value, wanted string) bool, values ...string) {
		if wanted == "" {
			return
		}
		best := 0
		for _, value := range values {
			switch {
			case strings.EqualFold(value, wanted):
				best = 2
			case fits(value, wanted):
				best = max(best, 1)
			}
		}
		ok = ok && best > 0
		exact += max(best-1, 0)
	}
	check(c.OS, never, b.OS)
	check(c.OSVersion, isVersionOf, b.OSVersion)
	check(c.WindowsVersion, never, b.WindowsVersion)
	check(c.OSArch, never, b.OSArch)
	check(c.Renderer, contains, b.Renderer)
	check(c.Model, contains, b.Model, modelName(b))
	check(c.GPUName, contains, b.GPUName)
	if c.BrowserVersion != 0 && b.BrowserVersion != 0 && b.BrowserVersion != c.BrowserVersion {
		ok = false
	}
	if b.BrowserVersion == c.BrowserVersion { // asked for by number, or left open on both sides
		exact++
	}
	return exact, ok
}

// names reports whether the criteria say anything of an identity; a browser's
// version alone does not.
func (c Criteria) names() bool {
	c.BrowserVersion = 0
	return c != Criteria{}
}

// modelName is what people call a device; nothing for a bundle of none.
func modelName(b Bundle) string {
	if b.Model == "" {
		return ""
	}
	return b.Name
}

func never(string, string) bool { return false }

func isVersionOf(value, wanted string) bool { return strings.HasPrefix(value, wanted+".") }

func contains(value, wanted string) bool {
	return strings.Contains(strings.ToLower(value), strings.ToLower(wanted))
}

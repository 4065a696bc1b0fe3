package bundle

import (
	"strconv"
	"strings"
)

// Criteria describe bundles; the zero value of a field allows any. Systems,
// versions of Windows and processors match as a whole. An OSVersion also
// matches more exact ones (10 matches 10.0.19045). The other texts match
// wherever they occur, whatever the case; Model in the device's own name for
// itself and in the bundle's.
type Criteria struct {
	OS, OSVersion, WindowsVersion, OSArch, Renderer, Model, GPUName string
	BrowserVersion                                                  int
}

// Mismatch is a criterion that a bundle does not fit.
type Mismatch struct {
	Criterion string // by its name in the API
	Has       string // what the bundle has instead; empty: it does not say
}

// criterion is one of Criteria, for one bundle.
type criterion struct {
	name, wanted string
	matches      func(value, wanted string) bool // but for those that are equal, whatever the case
	values       []string                        // the bundle's, the first of them for people
}

func (c Criteria) compare(b Bundle) []criterion {
	return []criterion{
		{"os", c.OS, exactOnly, []string{b.OS}},
		{"osVersion", c.OSVersion, isVersionOf, []string{b.OSVersion}},
		{"windowsVersion", c.WindowsVersion, exactOnly, []string{b.WindowsVersion}},
		{"osArch", c.OSArch, exactOnly, []string{b.OSArch}},
		{"renderer", c.Renderer, contains, []string{b.Renderer}},
		{"model", c.Model, contains, []string{b.Model, modelName(b)}},
		{"gpuName", c.GPUName, contains, []string{b.GPUName}},
	}
}

// match reports whether the bundle fits the criterion, and whether exactly. What
// allows any is fit by all, and by none exactly.
func (c criterion) match() (exact, ok bool) {
	if c.wanted == "" {
		return false, true
	}
	for _, value := range c.values {
		if strings.EqualFold(value, c.wanted) {
			return true, true
		}
		ok = ok || c.matches(value, c.wanted)
	}
	return false, ok
}

// match reports whether a bundle fits all criteria, and how many of them exactly.
func (c Criteria) match(b Bundle) (exact int, ok bool) {
	ok = c.matchesVersion(b)
	for _, one := range c.compare(b) {
		exactly, fits := one.match()
		ok = ok && fits
		if exactly {
			exact++
		}
	}
	if b.BrowserVersion == c.BrowserVersion { // asked for by number, or left open on both sides
		exact++
	}
	return exact, ok
}

// Mismatches are the criteria that a bundle does not fit.
func (c Criteria) Mismatches(b Bundle) []Mismatch {
	var misfits []Mismatch
	if !c.matchesVersion(b) {
		misfits = append(misfits, Mismatch{"browserVersion", strconv.Itoa(b.BrowserVersion)})
	}
	for _, one := range c.compare(b) {
		if _, fits := one.match(); !fits {
			misfits = append(misfits, Mismatch{one.name, one.values[0]})
		}
	}
	return misfits
}

func (c Criteria) matchesVersion(b Bundle) bool {
	return c.BrowserVersion == 0 || b.BrowserVersion == 0 || b.BrowserVersion == c.BrowserVersion
}

// namesIdentity reports whether the criteria say anything of an identity; a browser's
// version alone does not.
func (c Criteria) namesIdentity() bool {
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

func exactOnly(string, string) bool { return false }

func isVersionOf(value, wanted string) bool { return strings.HasPrefix(value, wanted+".") }

func contains(value, wanted string) bool {
	return strings.Contains(strings.ToLower(value), strings.ToLower(wanted))
}

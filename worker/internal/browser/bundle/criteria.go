package bundle

import (
	"strconv"
	"strings"
)

// Criteria select bundles. A zero field matches any bundle. Systems, Windows
// versions and architectures must be equal. An OSVersion also matches more specific
// versions (10 matches 10.0.19045). Other texts match as substrings, regardless of
// case. Model matches the device's own model name and the bundle's name.
// The JSON names are those of the API.
type Criteria struct {
	OS             string `json:"os"`
	OSVersion      string `json:"osVersion"`
	WindowsVersion string `json:"windowsVersion"`
	OSArch         string `json:"osArch"`
	Renderer       string `json:"renderer"`
	Model          string `json:"model"`
	GPUName        string `json:"gpuName"`
	BrowserVersion int    `json:"-"`
}

// Mismatch is a criterion that a bundle does not match.
type Mismatch struct {
	Criterion string // by its name in the API
	Has       string // the bundle's value; empty if it has none
}

// criterion is one criterion applied to one bundle.
type criterion struct {
	name, text string
	matches    func(value, text string) bool // for values that are not equal
	values     []string                      // of the bundle; the first is shown in errors
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

// match reports whether the bundle matches the criterion, and whether exactly. An
// empty criterion always matches, but not exactly.
func (c criterion) match() (exact, ok bool) {
	if c.text == "" {
		return false, true
	}
	for _, value := range c.values {
		if strings.EqualFold(value, c.text) {
			return true, true
		}
		ok = ok || c.matches(value, c.text)
	}
	return false, ok
}

// match reports whether a bundle matches all criteria, and how many exactly.
func (c Criteria) match(b Bundle) (exact int, ok bool) {
	ok = c.matchesVersion(b)
	for _, criterion := range c.compare(b) {
		exactly, fits := criterion.match()
		ok = ok && fits
		if exactly {
			exact++
		}
	}
	if b.BrowserVersion == c.BrowserVersion { // equal, or unset on both sides
		exact++
	}
	return exact, ok
}

// String lists the criteria that are set, except the version, by their names in the API.
func (c Criteria) String() string {
	var set []string
	for _, criterion := range c.compare(Bundle{}) {
		if criterion.text != "" {
			set = append(set, criterion.name+" "+criterion.text)
		}
	}
	return strings.Join(set, ", ")
}

// Mismatches returns the criteria that a bundle does not match.
func (c Criteria) Mismatches(b Bundle) []Mismatch {
	var misfits []Mismatch
	if !c.matchesVersion(b) {
		misfits = append(misfits, Mismatch{"browserVersion", strconv.Itoa(b.BrowserVersion)})
	}
	for _, criterion := range c.compare(b) {
		if _, fits := criterion.match(); !fits {
			misfits = append(misfits, Mismatch{criterion.name, criterion.values[0]})
		}
	}
	return misfits
}

func (c Criteria) matchesVersion(b Bundle) bool {
	return c.BrowserVersion == 0 || b.BrowserVersion == 0 || b.BrowserVersion == c.BrowserVersion
}

// NameIdentity reports whether the criteria describe an identity. A browser version
// alone does not.
func (c Criteria) NameIdentity() bool {
	c.BrowserVersion = 0
	return c != Criteria{}
}

// modelName returns the display name of a device, or nothing for a bundle without a
// device.
func modelName(b Bundle) string {
	if b.Model == "" {
		return ""
	}
	return b.Name
}

func exactOnly(string, string) bool { return false }

func isVersionOf(value, text string) bool { return strings.HasPrefix(value, text+".") }

func contains(value, text string) bool {
	return strings.Contains(strings.ToLower(value), strings.ToLower(text))
}

// Package bundle holds identity presets: the system, device and screen that a
// browser presents (specification 2.3, 4.3).
//
// A bundle is one JSON file. There are built-in bundles, and a directory can add
// more. Bundles use only the emulation that DevTools offers for testing. Renderer
// and GPUName are descriptive.
package bundle

import (
	"strconv"
	"strings"
)

// Bundle is an identity preset. For a field with the zero value the browser keeps
// its own value.
type Bundle struct {
	Filename          string // for example pixel-9.json; unique regardless of case
	Name              string
	BrowserVersion    int    // the major version; 0: any
	OS                string // windows, macos, linux or android
	OSVersion         string
	WindowsVersion    string // 7, 10 or 11
	OSArch            string // x86 or arm
	Renderer          string // descriptive only
	GPUName           string // descriptive only
	Model             string // the device's own model name, for android
	UserAgent         string // {major} is replaced by the browser's major version; see For
	Viewport          *Size
	Screen            *Size
	DeviceScaleFactor float64
	IsMobile          bool
	HasTouch          bool
	Locale            string // BCP 47
	TimezoneID        string // IANA
	ColorScheme       string // light, dark or no-preference
}

// Size is in CSS pixels.
type Size struct{ Width, Height int }

const majorPlaceholder = "{major}"

// For returns the bundle for a browser of that major version.
func (b Bundle) For(major int) Bundle {
	b.BrowserVersion = major
	b.UserAgent = strings.ReplaceAll(b.UserAgent, majorPlaceholder, strconv.Itoa(major))
	return b
}

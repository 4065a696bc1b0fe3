// Package bundle holds identity presets: which system, device and screen a
// browser presents (specification 2.3, 4.3).
//
// A bundle is one JSON file. A set is built in; a directory adds to it. All
// that a bundle sets is ordinary emulation, as DevTools has it for testing;
// Renderer and GPUName only describe the device.
package bundle

import (
	"strconv"
	"strings"
)

// Bundle is an identity preset. The zero value of a field means that the
// bundle does not say, and the browser keeps its own.
type Bundle struct {
	Filename          string // compare its file, for example pixel-9.json; unique whatever the case
	Name              string
	BrowserVersion    int    // the major it is for; 0: any that is installed
	OS                string // windows, macos, linux or android
	OSVersion         string
	WindowsVersion    string // 7, 10 or 11
	OSArch            string // x86 or arm
	Renderer          string // descriptive only
	GPUName           string // descriptive only
	Model             string // as the device names itself, for android
	UserAgent         string // {major} stands for the browser's major version; see For
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

// For returns the bundle as a browser of that major version presents it.
func (b Bundle) For(major int) Bundle {
	b.BrowserVersion = major
	b.UserAgent = strings.ReplaceAll(b.UserAgent, majorPlaceholder, strconv.Itoa(major))
	return b
}

// Package settings holds the settings of browsers that profiles, bundles and launches
// share. The zero value of a field is "not set". The JSON names are those of the API.
package settings

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/browser-svc/svc/shared/netrules"
)

// Settings of a profile, of a bundle or of one launch. Their JSON format contains no secrets.
type Settings struct {
	Identity
	Emulation
	Options
	Proxy          *Proxy   `json:"proxy,omitempty"`
	Record         []string `json:"record,omitempty"`         // what is recorded: video, events, frames
	CACertificates []string `json:"caCertificates,omitempty"` // PEM
	// Network has the rules of this level. Those of other levels apply too: WithDefaults
	// does not join them.
	Network *netrules.Rules `json:"network,omitempty"`

	IdleTimeoutSeconds *int32 `json:"idleTimeoutSeconds,omitempty"` // 0: no limit; nil: that of the worker
	MaxDurationSeconds *int32 `json:"maxDurationSeconds,omitempty"` // likewise
}

// Identity selects a bundle.
type Identity struct {
	OSVersion      string `json:"osVersion,omitempty"`
	WindowsVersion string `json:"windowsVersion,omitempty" enum:"7,10,11"`
	OSArch         string `json:"osArch,omitempty" enum:"x86,arm"`
	Model          string `json:"model,omitempty"`    // the device's own model name, for android
	Renderer       string `json:"renderer,omitempty"` // descriptive only
	GPUName        string `json:"gpuName,omitempty"`  // descriptive only
}

// Emulation is what a browser presents to pages. A bundle can set it.
type Emulation struct {
	UserAgent         string  `json:"userAgent,omitempty"`
	Locale            string  `json:"locale,omitempty"`     // BCP 47, for example fr-FR
	TimezoneID        string  `json:"timezoneId,omitempty"` // IANA, for example Asia/Tokyo
	ColorScheme       string  `json:"colorScheme,omitempty" enum:"light,dark,no-preference"`
	ReducedMotion     string  `json:"reducedMotion,omitempty" enum:"reduce,no-preference"`
	ForcedColors      string  `json:"forcedColors,omitempty" enum:"active,none"`
	Viewport          *Size   `json:"viewport,omitempty"` // of pages; by default the window's content area
	Screen            *Size   `json:"screen,omitempty"`
	DeviceScaleFactor float64 `json:"deviceScaleFactor,omitempty"` // device pixels per CSS pixel
	IsMobile          *bool   `json:"isMobile,omitempty"`
	HasTouch          *bool   `json:"hasTouch,omitempty"`
}

// Options are further settings that the browser applies.
type Options struct {
	Geolocation       *Geolocation      `json:"geolocation,omitempty"`
	Permissions       []string          `json:"permissions,omitempty"` // granted to every origin
	ExtraHTTPHeaders  map[string]string `json:"extraHTTPHeaders,omitempty"`
	IgnoreHTTPSErrors *bool             `json:"ignoreHTTPSErrors,omitempty"`
	Args              []string          `json:"args,omitempty"`      // further switches; see package switches
	StartURLs         []string          `json:"startUrls,omitempty"` // http, https or about:blank; one tab each
}

// Size is in CSS pixels.
type Size struct {
	Width  int `json:"width"`
	Height int `json:"height"`
}

// Geolocation is a position in degrees, with the accuracy in metres.
type Geolocation struct {
	Latitude  float64  `json:"latitude"`
	Longitude float64  `json:"longitude"`
	Accuracy  *float64 `json:"accuracy,omitempty"`
}

// Proxy is the upstream proxy of a browser.
type Proxy struct {
	Server   string `json:"server"`           // scheme://host:port
	Bypass   string `json:"bypass,omitempty"` // comma-separated hosts
	Username string `json:"username,omitempty"`
	Password string `json:"-"`
}

// Enabled reports whether a flag is set and true.
func Enabled(flag *bool) bool { return flag != nil && *flag }

// VisitEnums calls visit for each text of a group, by a pointer, that has an enum: the values
// that it can have.
func VisitEnums(group any, visit func(name string, value *string, enum []string)) {
	fields := reflect.ValueOf(group).Elem()
	for i := range fields.NumField() {
		tag := fields.Type().Field(i).Tag
		if value, ok := fields.Field(i).Addr().Interface().(*string); ok && tag.Get("enum") != "" {
			name, _, _ := strings.Cut(tag.Get("json"), ",")
			visit(name, value, strings.Split(tag.Get("enum"), ","))
		}
	}
}

// WithDefaults returns s, with the settings of base where s sets none. An empty list is set.
func (s Settings) WithDefaults(base Settings) Settings {
	fill(reflect.ValueOf(&s).Elem(), reflect.ValueOf(base))
	return s
}

func fill(target, base reflect.Value) {
	for i := range target.NumField() {
		switch field := target.Field(i); {
		case field.Kind() == reflect.Struct: // a group of settings
			fill(field, base.Field(i))
		case field.IsZero():
			field.Set(base.Field(i))
		}
	}
}

// Convert converts between Settings, or a type with them, and a generated type by their
// JSON format, which is the same.
func Convert[T any](value any) (converted T, err error) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &converted)
	}
	if err != nil {
		return converted, fmt.Errorf("convert %T to %T: %w", value, converted, err)
	}
	return converted, nil
}

package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/settings"
)

// These are the rules of profile settings in the API documents.
var (
	userAgentPattern = lazy.Regexp(`^[\x20-\x7E]+$`)
	localePattern    = lazy.Regexp(`^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)
	timezonePattern  = lazy.Regexp(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`)
	plainKey         = lazy.Regexp(`^[A-Za-z0-9_-]{1,64}$`)
)

// decoder reads one file and collects its errors.
type decoder struct {
	file     string
	problems []FileError
}

// fieldReader reads the value of one field.
type fieldReader func(field string, raw []byte)

// decode reads a bundle file. It accepts only known fields with valid types and
// values, without duplicates and null.
func decode(filename string, raw []byte) (Bundle, []FileError) {
	d := &decoder{file: filename}
	b := Bundle{Filename: filename}
	if !utf8.Valid(raw) {
		d.addError("", "is not UTF-8")
		return b, d.problems
	}
	fields := map[string]fieldReader{
		"name":              d.text(&b.Name, 128),
		"browserVersion":    d.integer(&b.BrowserVersion, 1, 9999),
		"os":                d.oneOf(&b.OS, "windows", "macos", "linux", "android"),
		"osVersion":         d.text(&b.OSVersion, 32),
		"renderer":          d.text(&b.Renderer, 256),
		"gpuName":           d.text(&b.GPUName, 128),
		"model":             d.text(&b.Model, 128),
		"userAgent":         d.userAgent(&b.UserAgent),
		"viewport":          d.size(&b.Viewport),
		"screen":            d.size(&b.Screen),
		"deviceScaleFactor": d.number(&b.DeviceScaleFactor, 0.25, 8),
		"isMobile":          d.boolean(&b.IsMobile),
		"hasTouch":          d.boolean(&b.HasTouch),
		"locale":            d.pattern(&b.Locale, 35, localePattern(), "must be a language tag, for example de-DE"),
		"timezoneId":        d.timezone(&b.TimezoneID),
	}
	addEnum := func(name string, value *string, enum []string) { fields[name] = d.oneOf(value, enum...) }
	settings.VisitEnums(&b.Identity, addEnum)
	settings.VisitEnums(&b.Emulation, addEnum)
	d.object("", raw, fields, "name", "os")
	d.checkConsistency(b)
	return b, d.problems
}

// checkConsistency checks fields against each other.
func (d *decoder) checkConsistency(b Bundle) {
	if b.WindowsVersion != "" && b.OS != "" && b.OS != "windows" {
		d.addError("windowsVersion", "requires os windows")
	}
	if b.Model != "" && b.OS != "" && b.OS != "android" {
		d.addError("model", "requires os android")
	}
	if b.Viewport != nil && b.Screen != nil && (b.Viewport.Width > b.Screen.Width || b.Viewport.Height > b.Screen.Height) {
		d.addError("viewport", "is larger than the screen")
	}
}

func (d *decoder) addError(field, format string, args ...any) {
	d.problems = append(d.problems, FileError{File: d.file, Field: field, Message: fmt.Sprintf(format, args...)})
}

// object reads the members of an object and reports missing required ones.
func (d *decoder) object(field string, raw []byte, known map[string]fieldReader, required ...string) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		d.addError(field, "must be a JSON object")
		return
	}
	missing := slices.Clone(required)
	names := make(map[string]bool)
	for dec.More() {
		key, err := dec.Token()
		name, _ := key.(string)
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			d.addError(field, "is not JSON: %v", err)
			return
		}
		path := join(field, name)
		read, ok := known[name]
		switch {
		case !ok:
			d.addError(path, "is unknown; the fields are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case names[name]:
			d.addError(path, "is a duplicate")
		case string(value) == "null":
			d.addError(path, "must not be null: omit it")
		default:
			read(path, value)
		}
		names[name] = true
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
	}
	if _, err := dec.Token(); err != nil {
		d.addError(field, "is not JSON: %v", err)
		return
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		d.addError(field, "has data after its end")
	}
	for _, name := range missing {
		d.addError(join(field, name), "is required")
	}
}

func (d *decoder) text(into *string, longest int) fieldReader {
	return func(field string, raw []byte) {
		var s string
		switch err := json.Unmarshal(raw, &s); {
		case err != nil:
			d.addError(field, "must be a string")
		case s == "" || utf8.RuneCountInString(s) > longest:
			d.addError(field, "must have from 1 to %d characters", longest)
		case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }):
			d.addError(field, "must have printable characters only")
		default:
			*into = s
		}
	}
}

// checked reads a text and applies a further check, which returns an error message.
func (d *decoder) checked(into *string, longest int, check func(string) string) fieldReader {
	return func(field string, raw []byte) {
		var s string
		d.text(&s, longest)(field, raw)
		if s == "" {
			return
		}
		if message := check(s); message != "" {
			d.addError(field, "%s", message)
			return
		}
		*into = s
	}
}

func (d *decoder) oneOf(into *string, allowed ...string) fieldReader {
	return d.checked(into, 32, func(s string) string {
		if slices.Contains(allowed, s) {
			return ""
		}
		return "must be one of " + strings.Join(allowed, ", ")
	})
}

func (d *decoder) pattern(into *string, longest int, pattern *regexp.Regexp, message string) fieldReader {
	return d.checked(into, longest, func(s string) string {
		if pattern.MatchString(s) {
			return ""
		}
		return message
	})
}

func (d *decoder) userAgent(into *string) fieldReader {
	return d.checked(into, 512, func(s string) string {
		switch {
		case !userAgentPattern().MatchString(s):
			return "must be printable ASCII"
		case strings.ContainsAny(strings.ReplaceAll(s, majorPlaceholder, ""), "{}"):
			return "must not have a placeholder other than " + majorPlaceholder
		}
		return ""
	})
}

func (d *decoder) timezone(into *string) fieldReader {
	return d.checked(into, 64, func(s string) string {
		if timezonePattern().MatchString(s) && s != "Local" {
			if _, err := time.LoadLocation(s); err == nil {
				return ""
			}
		}
		return "is an unknown time zone"
	})
}

func (d *decoder) integer(into *int, least, most int) fieldReader {
	return func(field string, raw []byte) {
		var n int
		switch err := json.Unmarshal(raw, &n); {
		case err != nil:
			d.addError(field, "must be a whole number")
		case n < least || n > most:
			d.addError(field, "must be from %d to %d", least, most)
		default:
			*into = n
		}
	}
}

func (d *decoder) number(into *float64, least, most float64) fieldReader {
	return func(field string, raw []byte) {
		var n float64
		switch err := json.Unmarshal(raw, &n); {
		case err != nil:
			d.addError(field, "must be a number")
		case n < least || n > most:
			d.addError(field, "must be from %v to %v", least, most)
		default:
			*into = n
		}
	}
}

func (d *decoder) boolean(into **bool) fieldReader {
	return func(field string, raw []byte) {
		if err := json.Unmarshal(raw, into); err != nil {
			d.addError(field, "must be true or false")
		}
	}
}

func (d *decoder) size(into **settings.Size) fieldReader {
	return func(field string, raw []byte) {
		var s settings.Size
		d.object(field, raw, map[string]fieldReader{
			"width":  d.integer(&s.Width, 100, 10000),
			"height": d.integer(&s.Height, 100, 10000),
		}, "width", "height")
		if s.Width != 0 && s.Height != 0 {
			*into = &s
		}
	}
}

// join returns the path of a member of an object. Unusual keys are quoted.
func join(object, key string) string {
	if !plainKey().MatchString(key) {
		key = fmt.Sprintf("%.64q", key)
	}
	if object == "" {
		return key
	}
	return object + "." + key
}

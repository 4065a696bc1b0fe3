package webdriver

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/lazy"
)

// Capabilities and paths of Selenium Grid.
const (
	nameCapability       = "se:name"
	timeZoneCapability   = "se:timeZone"
	resolutionCapability = "se:screenResolution"
	videoCapability      = "se:recordVideo"

	vncPath = "/se/vnc"
)

// resolutionPattern matches a width, a height and an optional color depth, in pixels and bits.
var resolutionPattern = lazy.Regexp(`^(\d{1,5})x(\d{1,5})(x\d{1,2})?$`)

// readGridOption converts a capability of Selenium Grid to a setting of the launch. It
// ignores those that describe a Grid or its containers.
func (n *newSession) readGridOption(name string, raw json.RawMessage) []fault.Detail {
	switch name {
	case nameCapability:
		return n.setText(name, "name", raw)
	case timeZoneCapability:
		return n.setText(name, "timezoneId", raw)
	case resolutionCapability:
		return n.setScreen(raw)
	case videoCapability:
		return n.setVideo(raw)
	}
	return nil
}

// setText sets a setting to a text.
func (n *newSession) setText(capability, setting string, raw json.RawMessage) []fault.Detail {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return []fault.Detail{invalidDetail(capability, "must be a string")}
	}
	return n.setSetting(capability, setting, text)
}

// setScreen sets the screen of the browser. Grid also takes a color depth, which is always 24 here.
func (n *newSession) setScreen(raw json.RawMessage) []fault.Detail {
	var text string
	_ = json.Unmarshal(raw, &text)
	parts := resolutionPattern().FindStringSubmatch(strings.ToLower(text))
	if parts == nil {
		return []fault.Detail{invalidDetail(resolutionCapability, `must be a width and a height, such as "1920x1080"`)}
	}
	width, _ := strconv.Atoi(parts[1]) // both have matched
	height, _ := strconv.Atoi(parts[2])
	return n.setSetting(resolutionCapability, "screen", map[string]int{"width": width, "height": height})
}

// setVideo records a video. Without it, the profile decides.
func (n *newSession) setVideo(raw json.RawMessage) []fault.Detail {
	var text string
	if json.Unmarshal(raw, &text) != nil { // clients of Grid send a boolean or its text
		text = string(raw)
	}
	record, err := strconv.ParseBool(text)
	switch {
	case err != nil:
		return []fault.Detail{invalidDetail(videoCapability, "must be true or false")}
	case !record:
		return nil
	}
	return n.setSetting(videoCapability, "record", []string{"video"})
}

// setSetting sets a member of browser, of which errors name the capability.
func (n *newSession) setSetting(capability, setting string, value any) []fault.Detail {
	browser, ok := n.member("browser")
	if !ok {
		return nil // the launch is refused
	}
	if browser[setting] != nil {
		return []fault.Detail{conflict(capability, ownOptions+".browser."+setting)}
	}
	browser[setting], _ = json.Marshal(value) // of texts and numbers
	n.set("browser", browser)
	n.capabilities["browser."+setting] = capability
	return nil
}

// renameFields makes an error name the capabilities of the request instead of the fields
// that they set.
func (n *newSession) renameFields(err error) error {
	return fault.RenameFields(err, func(field string) string {
		for setting, capability := range n.capabilities {
			if rest, ok := strings.CutPrefix(field, setting); ok && (rest == "" || strings.ContainsAny(rest[:1], ".[")) {
				return capability + rest
			}
		}
		return strings.TrimSuffix(ownOptions+"."+field, ".body")
	})
}

package webdriver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/browser-svc/svc/shared/fault"
)

// The capability with the launch.
const ownOptions = "svc:options"

type capabilities map[string]json.RawMessage

// newSession is a parsed request for a session.
type newSession struct {
	token   string                     // svc:options.token
	body    map[string]json.RawMessage // like the body of POST /sessions/profile
	forward map[string]any             // capabilities for chromedriver

	capabilities map[string]string // by the setting of the launch that each sets

	acceptInsecureCerts bool
	managesDownloads    bool
}

// parseNewSession reads the body of a new session command. The errors are
// *fault.Error: Validation, and NotInstalled if no capabilities fit this worker. With
// an error, the result has the token at most.
func parseNewSession(body []byte) (*newSession, error) {
	var request struct {
		Capabilities *struct {
			AlwaysMatch capabilities   `json:"alwaysMatch"`
			FirstMatch  []capabilities `json:"firstMatch"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, fault.Wrap(err, fault.Validation, "The request is not valid.", invalidDetail("capabilities", "must be an object with alwaysMatch, an object, and firstMatch, an array of objects"))
	}
	if request.Capabilities == nil {
		return nil, fault.Invalid(fault.Detail{Field: "capabilities", Code: fault.Required, Message: "is required: desiredCapabilities, of clients before W3C WebDriver, is not supported"})
	}
	first := request.Capabilities.FirstMatch
	if len(first) == 0 {
		first = []capabilities{{}}
	}
	var mismatch string
	for _, alternative := range first {
		merged, err := merge(request.Capabilities.AlwaysMatch, alternative)
		if err != nil {
			return nil, err
		}
		if reason := merged.mismatch(); reason != "" {
			mismatch = reason
			continue
		}
		return merged.parse()
	}
	return nil, fault.New(fault.NotInstalled, "No capabilities of firstMatch fit this worker: "+mismatch)
}

// merge merges capabilities (WebDriver, 7.2). A null capability is ignored.
func merge(always, first capabilities) (capabilities, error) {
	merged := capabilities{}
	for _, source := range []capabilities{always, first} {
		for name, value := range source {
			if string(value) == "null" {
				continue
			}
			if _, twice := merged[name]; twice {
				return nil, fault.Invalid(conflict(name, "the same capability in alwaysMatch"))
			}
			merged[name] = value
		}
	}
	return merged, nil
}

// mismatch returns why capabilities do not fit this worker; "" if they do.
func (c capabilities) mismatch() string {
	for name, fitting := range map[string][]string{"browserName": {"chrome", "chromium"}, "platformName": {"linux", "any"}} {
		var value string
		if raw, ok := c[name]; ok && json.Unmarshal(raw, &value) == nil && !slices.Contains(fitting, strings.ToLower(value)) {
			return fmt.Sprintf("%s must be %s.", name, strings.Join(fitting, " or "))
		}
	}
	return ""
}

// forwarded are the capabilities that chromedriver implements for a running browser,
// by their check; nil is for any value.
func forwarded() map[string]func(json.RawMessage) string {
	return map[string]func(json.RawMessage) string{
		"pageLoadStrategy": func(raw json.RawMessage) string {
			return checkOneOf(raw, "normal", "eager", "none")
		},
		"timeouts":                  checkObject,
		"unhandledPromptBehavior":   nil,
		"strictFileInteractability": checkFlag,
		"webSocketUrl":              checkFlag,
		"goog:loggingPrefs":         checkObject,
	}
}

// maxCapabilities limits the number of capabilities, and so of errors.
const maxCapabilities = 100

// parse converts merged capabilities and returns all problems at once.
func (c capabilities) parse() (*newSession, error) {
	n := &newSession{body: map[string]json.RawMessage{}, forward: map[string]any{}, capabilities: map[string]string{}}
	var details []fault.Detail
	refuse := func(more ...fault.Detail) { details = append(details, more...) }
	refuse(n.readOwnOptions(c[ownOptions])...)
	if len(c) > maxCapabilities {
		return n, fault.Invalid(fault.Detail{Field: "capabilities", Code: fault.ArrayTooLong, Message: "must be at most 100", Constraint: map[string]any{"max": maxCapabilities}})
	}
	checks := forwarded()
	for _, name := range slices.Sorted(maps.Keys(c)) {
		raw := c[name]
		check, forward := checks[name]
		switch {
		case forward:
			if check != nil {
				if problem := check(raw); problem != "" {
					refuse(invalidDetail(name, problem))
				}
			}
			n.forward[name] = raw
		case name == "browserName", name == "platformName":
			refuse(requireString(name, raw)...)
		case name == "browserVersion":
			refuse(n.readVersion(raw)...)
		case name == "acceptInsecureCerts":
			if json.Unmarshal(raw, &n.acceptInsecureCerts) != nil {
				refuse(invalidDetail(name, "must be true or false"))
			}
		case name == downloadsEnabled:
			if json.Unmarshal(raw, &n.managesDownloads) != nil {
				refuse(invalidDetail(name, "must be true or false"))
			}
		case name == "setWindowRect":
			if string(raw) != "true" {
				refuse(invalidDetail(name, "must be true"))
			}
		case name == "proxy":
			refuse(n.readProxy(raw)...)
		case name == "goog:chromeOptions":
			refuse(n.readChromeOptions(raw)...)
		case strings.HasPrefix(name, "se:"):
			refuse(n.readGridOption(name, raw)...)
		case name == ownOptions, strings.HasPrefix(name, "wdio:"): // webdriverio's are for the client itself
		default:
			refuse(fault.Detail{Field: name, Code: fault.UnrecognizedKey, Message: "is not a capability that this worker supports"})
		}
	}
	if len(details) > 0 {
		return n, fault.Invalid(details...)
	}
	if n.body["profileId"] == nil && n.body["spec"] == nil {
		n.body["spec"] = json.RawMessage("{}")
	}
	return n, nil
}

// readOwnOptions reads svc:options: the key and the launch.
func (n *newSession) readOwnOptions(raw json.RawMessage) []fault.Detail {
	if raw == nil {
		return nil
	}
	if json.Unmarshal(raw, &n.body) != nil {
		return []fault.Detail{invalidDetail(ownOptions, "must be an object")}
	}
	token, ok := n.body["token"]
	delete(n.body, "token")
	if ok && json.Unmarshal(token, &n.token) != nil {
		return []fault.Detail{invalidDetail(ownOptions+".token", "must be a string")}
	}
	return nil
}

// readVersion reads browserVersion, of which the major version counts.
func (n *newSession) readVersion(raw json.RawMessage) []fault.Detail {
	var version string
	_ = json.Unmarshal(raw, &version)
	text, _, _ := strings.Cut(version, ".")
	major, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return []fault.Detail{invalidDetail("browserVersion", `must be a string with a major version, such as "150"`)}
	}
	spec, ok := n.member("spec")
	if !ok {
		return nil // the launch is refused
	}
	switch {
	case n.body["profileId"] != nil:
		return []fault.Detail{conflict("browserVersion", ownOptions+".profileId, which determines the version")}
	case spec["browserVersion"] != nil:
		return []fault.Detail{conflict("browserVersion", ownOptions+".spec.browserVersion")}
	}
	spec["browserVersion"] = strconv.AppendUint(nil, major, 10)
	n.set("spec", spec)
	return nil
}

// member returns an object of the launch, empty without one; false for another value.
func (n *newSession) member(name string) (object map[string]json.RawMessage, ok bool) {
	if raw := n.body[name]; raw != nil && json.Unmarshal(raw, &object) != nil {
		return nil, false
	}
	if object == nil {
		object = map[string]json.RawMessage{}
	}
	return object, true
}

// set sets a member of the launch.
func (n *newSession) set(name string, value any) {
	n.body[name], _ = json.Marshal(value) // of values that were decoded
}

// launchBody returns the launch as the body of POST /sessions/profile.
func (n *newSession) launchBody() []byte {
	raw, _ := json.Marshal(n.body) // of values that were decoded
	return raw
}

func requireString(name string, raw json.RawMessage) []fault.Detail {
	if json.Unmarshal(raw, new(string)) != nil {
		return []fault.Detail{invalidDetail(name, "must be a string")}
	}
	return nil
}

func checkFlag(raw json.RawMessage) string {
	if json.Unmarshal(raw, new(bool)) != nil {
		return "must be true or false"
	}
	return ""
}

func checkObject(raw json.RawMessage) string {
	if json.Unmarshal(raw, &map[string]json.RawMessage{}) != nil {
		return "must be an object"
	}
	return ""
}

func checkOneOf(raw json.RawMessage, allowed ...string) string {
	var value string
	if json.Unmarshal(raw, &value) != nil || !slices.Contains(allowed, value) {
		return "must be one of " + strings.Join(allowed, ", ")
	}
	return ""
}

func invalidDetail(field, message string) fault.Detail {
	return fault.Detail{Field: field, Code: fault.InvalidFormat, Message: message}
}

func conflict(field, other string) fault.Detail {
	return fault.Detail{Field: field, Code: fault.Custom, Message: "must not be given together with " + other}
}

package launchsock

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// maxTimeout is the longest ?timeout=, in milliseconds: a week, the maximum of
// browser.maxDurationSeconds.
const maxTimeout = 7 * 24 * 60 * 60 * 1000

// parameters are the parameters of a launch without env.
func parameters() []string {
	return []string{"token", "profile", "profileId", "browserVersion", "headless", "engine", "proxy", "timeout", "waitSeconds"}
}

// parseParameters returns the launch of a request without env, like the body of POST
// /sessions/profile. Without a profile, it is a launch by spec. Names of fields are
// recorded in a.names.
func (a *launchRequest) parseParameters(query url.Values) (body map[string]any, details []fault.Detail) {
	body, browser := map[string]any{}, map[string]any{}
	a.names = map[string]string{}
	refuse := func(detail fault.Detail) { details = append(details, detail) }
	profile := "profileId"
	if query.Has("profile") {
		profile = "profile"
		if query.Has("profileId") {
			refuse(conflict("profile", "profileId"))
		}
	}
	spec := map[string]any{}
	if query.Has(profile) {
		body["profileId"], a.names["profileId"] = query.Get(profile), profile
	} else {
		body["spec"] = spec
	}
	if version := query.Get("browserVersion"); query.Has("browserVersion") {
		major, err := strconv.ParseInt(version, 10, 32)
		switch {
		case query.Has(profile):
			refuse(conflict("browserVersion", profile+", which determines the version"))
		case err != nil:
			refuse(fault.Detail{Field: "browserVersion", Code: fault.NotInteger, Message: "must be a major version, such as 150", Received: version})
		default:
			spec["browserVersion"], a.names["spec.browserVersion"] = major, "browserVersion"
		}
	}
	if headless := query.Get("headless"); query.Has("headless") {
		if headless != "true" && headless != "false" {
			refuse(fault.Detail{Field: "headless", Code: fault.InvalidType, Message: "must be true or false", Received: headless})
		}
		browser["headless"] = headless == "true"
	}
	if query.Has("engine") {
		browser["engine"], a.names["browser.engine"] = query.Get("engine"), "engine"
	}
	if timeout := query.Get("timeout"); query.Has("timeout") {
		ms, err := strconv.ParseInt(timeout, 10, 64)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange):
			refuse(fault.Detail{Field: "timeout", Code: fault.NotInteger, Message: "must be a number of milliseconds", Received: timeout})
		case ms < 1:
			refuse(fault.Detail{Field: "timeout", Code: fault.TooSmall, Message: "must be at least 1", Received: timeout, Constraint: map[string]any{"min": 1}})
		case ms > maxTimeout:
			refuse(fault.Detail{Field: "timeout", Code: fault.TooBig, Message: "must be at most a week, in milliseconds", Received: timeout, Constraint: map[string]any{"max": maxTimeout}})
		}
		browser["maxDurationSeconds"] = (ms + 999) / 1000
	}
	if wait := query.Get("waitSeconds"); query.Has("waitSeconds") {
		seconds, err := strconv.ParseInt(wait, 10, 32)
		if err != nil {
			refuse(fault.Detail{Field: "waitSeconds", Code: fault.NotInteger, Message: "must be a whole number of seconds", Received: wait})
		}
		body["waitSeconds"] = seconds
	}
	if query.Has("proxy") {
		proxy, ok := launch.ParseProxy(query.Get("proxy"))
		if !ok {
			refuse(fault.Detail{Field: "proxy", Code: fault.InvalidFormat, Message: "must be a proxy URL such as socks5://proxy.example:1080, with user and password before an @ if it needs them"})
		}
		body["proxyOverride"] = proxy
		for name := range proxy {
			a.names["proxyOverride."+name] = "proxy"
		}
	}
	if len(browser) > 0 {
		body["browser"] = browser
	}
	return body, details
}

// rename makes an error name the parameters of the request instead of the fields that
// they set.
func (a *launchRequest) rename(err error) error {
	return fault.RenameFields(err, func(field string) string {
		name, _, _ := strings.Cut(field, "[") // of a list
		if renamed, ok := a.names[name]; ok {
			return renamed + field[len(name):]
		}
		return field
	})
}

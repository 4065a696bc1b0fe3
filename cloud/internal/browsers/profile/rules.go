package profile

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/proxyaddr"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/switches"
)

// check returns a Validation fault with all violations of rules that the API document
// cannot express, and the given ones, or nil. prefix is prepended to the field names.
func (f *Fields) check(prefix string, found ...fault.Detail) error {
	refuse := func(field, message string, received any) {
		found = append(found, fault.Detail{Field: prefix + field, Code: fault.Custom, Message: message, Received: received})
	}
	if f.WindowsVersion != "" && (f.OS == nil || *f.OS != "windows") {
		refuse("windowsVersion", "requires os windows", f.WindowsVersion)
	}
	if f.TimezoneID != "" && !knownTimezone(f.TimezoneID) {
		refuse("timezoneId", "is not a known IANA time zone", f.TimezoneID)
	}
	if v, s := f.Viewport, f.Screen; v != nil && s != nil && (v.Width > s.Width || v.Height > s.Height) {
		refuse("viewport", "must not be larger than the screen", v)
		found[len(found)-1].Constraint = map[string]any{"maxWidth": s.Width, "maxHeight": s.Height}
	}
	for i, arg := range f.Args {
		if reason, refused := switches.Refused(arg); refused {
			refuse(fmt.Sprintf("args[%d]", i), reason, arg)
		}
	}
	for i, u := range f.StartURLs {
		if !isStartURL(u) {
			refuse(fmt.Sprintf("startUrls[%d]", i), "must be an http or https URL with a host, or about:blank", u)
		}
	}
	for i, text := range f.CACertificates {
		if _, err := certs.ParseAuthorities([]byte(text)); err != nil {
			refuse(fmt.Sprintf("caCertificates[%d]", i), err.Error(), nil)
		}
	}
	checkHeaders(f.ExtraHTTPHeaders, refuse)
	checkProxy(f.Proxy, refuse)
	found = append(found, f.Network.Check(prefix+"network.")...)
	if len(found) > 0 {
		return fault.Invalid(found...)
	}
	return nil
}

// knownTimezone refuses the name that has a special meaning in Go.
func knownTimezone(name string) bool {
	if name == "Local" {
		return false
	}
	_, err := time.LoadLocation(name)
	return err == nil
}

func isStartURL(raw string) bool {
	if raw == "about:blank" {
		return true
	}
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && proxyaddr.ValidHost(u)
}

// connectionHeaders are set by the browser for the connection (RFC 9110, section
// 7.6.1); other values break the connection.
var connectionHeaders = []string{
	"connection", "content-length", "host", "http2-settings", "keep-alive", "proxy-authenticate", "proxy-authorization",
	"proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// in bytes
const maxHeaderName = 256

func checkHeaders(headers map[string]string, refuse func(field, message string, received any)) {
	names := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		lower := strings.ToLower(name)
		printable := strings.ToValidUTF8(name[:min(len(name), maxHeaderName)], "")
		switch field := "extraHTTPHeaders." + printable; {
		case !isToken(name) || len(name) > maxHeaderName:
			refuse(field, "is not a valid header name", printable)
		case slices.Contains(connectionHeaders, lower):
			refuse(field, "is a header that the browser sets itself", printable)
		case names[lower]:
			refuse(field, "is given more than once", printable)
		}
		names[lower] = true
	}
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

func checkProxy(p *settings.Proxy, refuse func(field, message string, received any)) {
	if p == nil {
		return
	}
	for _, problem := range proxyaddr.Check(p.Server, p.Username, "") {
		received := p.Server
		if problem.Field == "username" {
			received = p.Username
		}
		refuse("proxy."+problem.Field, problem.Message, received)
	}
}

// errLimitReached returns the fault at the profileLimit (specification 7.3.1).
func errLimitReached(current, limit int) error {
	return fault.Wrap(&LimitError{Current: current, Limit: limit}, fault.Forbidden,
		"The organization has reached the profile limit of its plan. Delete a profile or change the plan.",
		fault.Detail{
			Field: "profileLimit", Code: fault.Custom, Message: "the limit is reached",
			Constraint: map[string]any{"current": current, "limit": limit},
		})
}

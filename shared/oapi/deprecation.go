package oapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// minNoticeMonths is the minimum time from deprecation to removal.
const minNoticeMonths = 6

// deprecations are the additional response headers of deprecated operations, by method
// and pattern.
type deprecations map[string]map[string]http.Header

// DeprecationHeaders returns the additional response headers of a deprecated operation:
// Deprecation (RFC 9745), Sunset (RFC 8594), and a Link to its description in /docs. It
// identifies the operation by method and Echo pattern; the names of placeholders do not
// matter. It returns nil for other operations. The caller must not modify the result.
func (d *Document) DeprecationHeaders(method, route string) http.Header {
	if len(d.deprecations) == 0 {
		return nil
	}
	shape := pattern(nil, route)
	if found := d.deprecations[method][string(shape)]; found != nil || method != http.MethodHead {
		return found
	}
	return d.deprecations[http.MethodGet][string(shape)]
}

// readDeprecations returns the headers of the deprecated operations. It returns an
// error if an operation has only one of its two dates, or if the notice is too short.
func readDeprecations(s *spec) (deprecations, error) {
	found := deprecations{}
	var wrong []error
	for path, item := range s.Paths {
		for method, op := range item.endpoints() {
			since, sunset, err := deprecationDates(op)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s %s: %w", method, path, err))
			}
			if err != nil || !op.Deprecated {
				continue
			}
			if found[method] == nil {
				found[method] = map[string]http.Header{}
			}
			found[method][string(pattern(nil, path))] = http.Header{
				"Deprecation": {fmt.Sprintf("@%d", since.Unix())},
				"Sunset":      {sunset.Format(http.TimeFormat)},
				"Link":        {fmt.Sprintf(`<%s>; rel="deprecation"; type="text/html"`, docsLink(path, op))},
			}
		}
	}
	return found, errors.Join(wrong...)
}

// deprecationDates returns the dates of a deprecated operation, or zero times for
// another operation.
func deprecationDates(op *endpoint) (since, sunset time.Time, err error) {
	start, end := op.DeprecatedAt, op.Sunset
	if !op.Deprecated {
		if start != nil || end != nil {
			err = errors.New("x-deprecated-at and x-sunset require deprecated: true")
		}
		return since, sunset, err
	}
	since, notSince := parseDate("x-deprecated-at", start)
	sunset, notSunset := parseDate("x-sunset", end)
	if err := errors.Join(notSince, notSunset); err != nil {
		return since, sunset, fmt.Errorf("deprecated operation: %w", err)
	}
	if earliest := since.AddDate(0, minNoticeMonths, 0); sunset.Before(earliest) {
		return since, sunset, fmt.Errorf("deprecated operation: x-sunset must be at least %d months after x-deprecated-at, not before %s",
			minNoticeMonths, earliest.Format(time.DateOnly))
	}
	return since, sunset, nil
}

func parseDate(name string, value any) (time.Time, error) {
	text, _ := value.(string)
	found, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return found, fmt.Errorf("%s must be a date such as 2027-01-31, not %v", name, value)
	}
	return found, nil
}

// docsLink returns the link to the operation in /docs. It is relative to the
// operation's path, so that it works behind a path prefix.
func docsLink(path string, op *endpoint) string {
	place := strings.Repeat("../", strings.Count(path, "/")-1) + "docs#"
	if len(op.Tags) == 0 {
		return place
	}
	return place + "/" + url.PathEscape(op.Tags[0]) + "/" + url.PathEscape(op.OperationID)
}

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

// deprecations are the headers of the answers of deprecated operations, by method,
// then pattern.
type deprecations map[string]map[string]http.Header

// DeprecationHeaders is what every answer of a deprecated operation carries beyond what all
// answers do: Deprecation (RFC 9745), Sunset (RFC 8594), and a Link to its
// description in /docs. The operation is told by its method and its Echo
// pattern, however the placeholders are named; nil for one that stays. It must
// not be changed.
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

// readDeprecations reads which operations go, and refuses those that do not say since
// when and until when, or give too little time.
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

// deprecationDates reads the dates of an operation that goes; they are zero for one
// that stays.
func deprecationDates(op *endpoint) (since, sunset time.Time, err error) {
	from, until := op.DeprecatedAt, op.Sunset
	if !op.Deprecated {
		if from != nil || until != nil {
			err = errors.New("x-deprecated-at and x-sunset require deprecated: true")
		}
		return since, sunset, err
	}
	since, notSince := parseDate("x-deprecated-at", from)
	sunset, notSunset := parseDate("x-sunset", until)
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

// docsLink is where /docs describes the operation, relative to its own
// address, so that it holds behind a path prefix.
func docsLink(path string, op *endpoint) string {
	place := strings.Repeat("../", strings.Count(path, "/")-1) + "docs#"
	if len(op.Tags) == 0 {
		return place
	}
	return place + "/" + url.PathEscape(op.Tags[0]) + "/" + url.PathEscape(op.OperationID)
}

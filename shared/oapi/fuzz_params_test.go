package oapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/browser-svc/svc/shared/fault"
)

const aThing = "0198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f"

// queries are the seeds: at least one for each parameter of listThings.
var queries = []string{
	"", "page=1", "page=0", "page=1e2", "page=01", "page=+1", "page=1.0", "page=99999999999", "page=1&page=2", "page=", "offset=-9223372036854775808", "ratio=1e-400", "ratio=NaN", "ratio=0x1p-2",
	"ratio=.5", "on=true", "on=1", "color=red", "color=RED", "version=7", "version=8", "search=a", "search=%E2%82%AC%E2%82%AC", "search=ab%00", "search=%ff%ff", "since=2026-01-31T12:00:00Z", "since=2026-01-31",
	"tag=a&tag=b", "tag=a&tag=b&tag=c", "tag=", "ids=1,2", "ids=1,1", "ids=1,,2", "ids=", "ids=1&ids=2", "unknown=1", "%zz", "a;b", "page=1;offset=2", "PAGE=1", "&&=&", "p%61ge=0",
	"on=", "since=&search=", "ratio=1_0", "offset=0x10", "ids=01,1", "tag[]=a", "page[a]=1",
}

// FuzzParameters compares the guard with the schema library for any query, path and
// header: the guard answers 400 or accepts the request. The library must accept what
// the guard accepts. It must refuse what the guard refuses, except where the guard is
// stricter.
func FuzzParameters(f *testing.F) {
	seedParameters(f)
	var saw receivedRequest
	e := newEcho(f, &saw)
	doc := load(f).T()
	f.Fuzz(func(t *testing.T, required bool, query, id, header string) {
		path, pattern := "/things", "/things"
		if required {
			path, pattern = "/things/"+id, "/things/{thingId}"
		}
		target, err := url.ParseRequestURI(path)
		if err != nil || required && (id == "" || strings.ContainsAny(id, "/?#")) || strings.ContainsAny(query, " #\r\n") || strings.ContainsAny(header, "\r\n\x00") {
			return // net/http never delivers such a request
		}
		target.RawQuery = query
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.URL = target
		r.Header.Set("Cookie", "session=good")
		if header != "" {
			r.Header.Set("If-Match", header)
		}
		saw = receivedRequest{}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		item := doc.Paths.Find(pattern)
		reason := refused(t, doc, item, pattern, r, target, id)
		switch w.Code {
		case http.StatusOK:
			if !saw.handled || reason != "" {
				t.Errorf("%s?%s with %q was accepted (handler called: %v), but the library refuses it: %s", path, query, header, saw.handled, reason)
			}
		case http.StatusBadRequest:
			var answer fault.Error
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.Details) == 0 || saw.handled {
				t.Fatalf("answer %s: %v", w.Body, err)
			}
			if reason == "" && !slices.ContainsFunc(answer.Details, isStricter) {
				t.Errorf("%s?%s with %q was refused: %+v", path, query, header, answer.Details)
			}
		default:
			if ticket := target.Query().Get("ticket"); !required || ticket == "" || ticket == "good" { // a wrong ticket is refused, even with a valid cookie
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		}
	})
}

func seedParameters(f *testing.F) {
	for _, query := range queries {
		f.Add(false, query, aThing, `"5"`)
	}
	for _, id := range []string{aThing, strings.ToUpper(aThing), "5", "%30198c5a2-7c1e-7d3a-9b1f-3f2a6c1d4e5f", "%2F", "%", "a%zz", "{" + aThing + "}", aThing + "%0A", strings.ReplaceAll(aThing, "-", "")} {
		f.Add(true, "fields=name", id, "")
	}
	f.Add(true, "", aThing, "")
	f.Add(true, "fields=name&ticket=x", aThing, "")
	f.Add(true, "fields=longer%20than%209", aThing, "")
	f.Add(false, "", "", "5")
}

// refused returns the error of the schema library for the parameters, or names a
// parameter that the operation does not have; "" if the request is valid.
func refused(t *testing.T, doc *openapi3.T, item *openapi3.PathItem, pattern string, r *http.Request, target *url.URL, id string) string {
	t.Helper()
	query, err := url.ParseQuery(target.RawQuery)
	if err != nil {
		return err.Error()
	}
	decoded, _ := url.PathUnescape(id)
	input := &openapi3filter.RequestValidationInput{
		Request: r, QueryParams: query, PathParams: map[string]string{"thingId": decoded}, Options: &openapi3filter.Options{SkipSettingDefaults: true},
		Route: &routers.Route{Spec: doc, Path: pattern, PathItem: item, Method: http.MethodGet, Operation: item.Get},
	}
	known := []string{"ticket"}
	if pattern == "/things" {
		known = nil
	}
	for _, parameter := range append(slices.Clone(item.Parameters), item.Get.Parameters...) {
		known = append(known, parameter.Value.Name)
		if err := openapi3filter.ValidateParameter(t.Context(), input, parameter.Value); err != nil && !errors.Is(err, openapi3filter.ErrInvalidEmptyValue) {
			return err.Error() // the guard treats an empty parameter as an empty text
		}
	}
	for name := range query {
		if !slices.Contains(known, name) {
			return name + " is unknown"
		}
	}
	return ""
}

// isStricter reports whether the guard may refuse this although the schema library does
// not: it checks formats and text more strictly, accepts a value only once and only one
// spelling of a number, and treats an empty value as a value.
func isStricter(d fault.Detail) bool {
	received, _ := d.Received.(string)
	switch d.Code {
	case fault.InvalidFormat, fault.Custom:
		return true
	case fault.InvalidType, fault.NotInteger, fault.InvalidEnumValue, fault.TooShort:
		return received == "" || d.Code != fault.TooShort && d.Code != fault.InvalidEnumValue
	}
	return false
}

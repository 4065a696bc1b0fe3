package contracttest

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// route is a path template of the document.
type route struct {
	template string
	pattern  *regexp.Regexp
	names    []string
	item     *openapi3.PathItem
}

// match is the operation of a request.
type match struct {
	route     route
	operation *openapi3.Operation
	params    map[string]string
}

var placeholder = regexp.MustCompile(`\{([^}]+)\}`)

// routesOf returns the document's paths, those with fewer placeholders first, because a
// literal path takes precedence over a matching template.
func routesOf(spec *openapi3.T) []route {
	var routes []route
	for template, item := range spec.Paths.Map() {
		r := route{template: template, item: item}
		var pattern strings.Builder
		rest := template
		for _, match := range placeholder.FindAllStringSubmatch(template, -1) {
			literal, after, _ := strings.Cut(rest, match[0])
			pattern.WriteString(regexp.QuoteMeta(literal) + `([^/]+)`)
			r.names = append(r.names, match[1])
			rest = after
		}
		r.pattern = regexp.MustCompile("^" + pattern.String() + regexp.QuoteMeta(rest) + "$")
		routes = append(routes, r)
	}
	slices.SortFunc(routes, func(a, b route) int {
		return cmp.Or(cmp.Compare(len(a.names), len(b.names)), cmp.Compare(a.template, b.template))
	})
	return routes
}

func findRoute(routes []route, r *http.Request) (match, bool) {
	for _, candidate := range routes {
		values := candidate.pattern.FindStringSubmatch(r.URL.EscapedPath())
		if values == nil {
			continue
		}
		operation := candidate.item.GetOperation(r.Method)
		if operation == nil {
			break // no template with this method applies: the more concrete path does
		}
		params := make(map[string]string, len(candidate.names))
		for i, name := range candidate.names {
			value, err := url.PathUnescape(values[i+1])
			if err != nil {
				value = values[i+1]
			}
			params[name] = value
		}
		return match{route: candidate, operation: operation, params: params}, true
	}
	return match{}, false
}

package oapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// concretePath is a path of the document, such as /v1/profiles/stats, that also matches
// the path of an operation, such as /v1/profiles/{profileId}, and does not have its method.
type concretePath struct {
	literals map[int]string // by the index of the operation's placeholder
	allow    string         // the methods of the path
}

// concretePaths returns the concrete paths of an operation. OpenAPI matches them first,
// with all methods; the router only with their own.
func (s *spec) concretePaths(o *operation) (found []concretePath) {
	for path, item := range s.Paths {
		literals := literalsFor(o.info.Path, path)
		if len(literals) == 0 {
			continue
		}
		methods := slices.Sorted(maps.Keys(item.endpoints()))
		if slices.Contains(methods, http.MethodGet) && !slices.Contains(methods, http.MethodHead) {
			methods = append(methods, http.MethodHead)
		}
		if !slices.Contains(methods, o.info.Method) {
			found = append(found, concretePath{literals, strings.Join(methods, ", ")})
		}
	}
	return found
}

// literalsFor returns what the placeholders of a path are in a more concrete path, by
// their index; nil if the path does not match it.
func literalsFor(path, concrete string) map[int]string {
	segments, values := strings.Split(path, "/"), strings.Split(concrete, "/")
	if len(segments) != len(values) {
		return nil
	}
	literals, index := map[int]string{}, 0
	for i, segment := range segments {
		isPlaceholder := strings.HasPrefix(segment, "{")
		switch {
		case isPlaceholder && !strings.HasPrefix(values[i], "{"):
			literals[index] = values[i]
		case !isPlaceholder && segment != values[i]:
			return nil
		}
		if isPlaceholder {
			index++
		}
	}
	return literals
}

// checkMethod refuses a request for a concrete path of the document that does not have
// its method.
func (o *operation) checkMethod(c echo.Context) error {
	for _, path := range o.concrete {
		matches := true
		for i, literal := range path.literals {
			value, _ := pathParam(c, i)
			matches = matches && value == literal
		}
		if matches {
			c.Response().Header().Set(echo.HeaderAllow, path.allow)
			return echo.ErrMethodNotAllowed
		}
	}
	return nil
}

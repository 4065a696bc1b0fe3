package contracttest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// checkRequest returns the violations of the operation in the request.
func (x *Exchange) checkRequest() []string {
	r := x.request.Clone(x.request.Context())
	r.GetBody = nil
	hasBody := x.request.Body != nil && x.request.Body != http.NoBody
	if x.match.operation.RequestBody == nil && string(bytes.TrimSpace(x.requestBody)) == "{}" {
		hasBody = false // generic clients send an empty object
	}
	r.Body = io.NopCloser(bytes.NewReader(x.bodyWithoutNulls()))
	err := openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
		Request:    r,
		PathParams: x.match.params,
		Route: &routers.Route{
			Spec: x.spec, Path: x.match.route.template, PathItem: x.match.route.item,
			Method: r.Method, Operation: x.match.operation,
		},
		Options: &openapi3filter.Options{
			MultiError:              true,
			SkipSettingDefaults:     true,
			ExcludeRequestBody:      hasBody && !isJSON(x.request.Header),
			AuthenticationFunc:      openapi3filter.NoopAuthenticationFunc,
			SchemaValidationOptions: []openapi3.SchemaValidationOption{formats()},
		},
	})
	var violations []string
	for _, problem := range describe(err) {
		violations = append(violations, "request: "+problem)
	}
	switch body := x.match.operation.RequestBody; {
	case !hasBody:
	case body == nil:
		violations = append(violations, "request: the operation takes no body")
	case body.Value.Content.Get(x.request.Header.Get("Content-Type")) == nil:
		violations = append(violations, "request: the operation does not take the content type "+
			quoted(x.request.Header.Get("Content-Type")))
	}
	for name := range x.request.URL.Query() {
		if !x.knowsQuery(name) {
			violations = append(violations, "request: the operation has no query parameter "+quoted(name))
		}
	}
	return violations
}

// bodyWithoutNulls returns the body without the nulls of optional members, which are
// equivalent to absent members.
func (x *Exchange) bodyWithoutNulls() []byte {
	var value any
	if x.match.operation.RequestBody == nil || !bytes.Contains(x.requestBody, []byte("null")) || json.Unmarshal(x.requestBody, &value) != nil {
		return x.requestBody
	}
	content := x.match.operation.RequestBody.Value.Content.Get("application/json")
	if content == nil || content.Schema == nil || !removeNulls([]*openapi3.Schema{content.Schema.Value}, value) {
		return x.requestBody
	}
	body, err := json.Marshal(value)
	if err != nil {
		return x.requestBody
	}
	return body
}

// removeNulls removes null members that are optional and not nullable from a value, and
// reports whether it removed any.
func removeNulls(schemas []*openapi3.Schema, value any) (found bool) {
	parts := compose(schemas)
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			named := slices.ContainsFunc(parts, func(part *openapi3.Schema) bool { return part.Properties[name] != nil })
			candidates, _ := propertySchemas(parts, name)
			required := slices.ContainsFunc(parts, func(part *openapi3.Schema) bool { return slices.Contains(part.Required, name) })
			switch {
			case member != nil:
				found = removeNulls(candidates, member) || found
			case named && !required && !slices.ContainsFunc(candidates, func(s *openapi3.Schema) bool { return s.Nullable || isFree(s) }):
				delete(value, name)
				found = true
			}
		}
	case []any:
		for _, part := range parts {
			if part.Items != nil {
				for _, item := range value {
					found = removeNulls([]*openapi3.Schema{part.Items.Value}, item) || found
				}
			}
		}
	}
	return found
}

// knowsQuery reports whether the operation has a query parameter or a query credential
// with this name.
func (x *Exchange) knowsQuery(name string) bool {
	if x.match.operation.Parameters.GetByInAndName(openapi3.ParameterInQuery, name) != nil ||
		x.match.route.item.Parameters.GetByInAndName(openapi3.ParameterInQuery, name) != nil {
		return true
	}
	for _, alternative := range x.security() {
		for scheme := range alternative {
			s := x.scheme(scheme)
			if s != nil && s.In == openapi3.ParameterInQuery && s.Name == name {
				return true
			}
		}
	}
	return false
}

func (x *Exchange) security() openapi3.SecurityRequirements {
	if own := x.match.operation.Security; own != nil {
		return *own
	}
	return x.spec.Security
}

func (x *Exchange) scheme(name string) *openapi3.SecurityScheme {
	if x.spec.Components == nil || x.spec.Components.SecuritySchemes[name] == nil {
		return nil
	}
	return x.spec.Components.SecuritySchemes[name].Value
}

// hasCredential reports whether the request has the credentials of one of the
// operation's security alternatives. Only the server checks whether they are valid.
func (x *Exchange) hasCredential() bool {
	alternatives := x.security()
	if len(alternatives) == 0 {
		return true
	}
	return slices.ContainsFunc(alternatives, func(alternative openapi3.SecurityRequirement) bool {
		for name := range alternative {
			if s := x.scheme(name); s == nil || !carries(x.request, s) {
				return false
			}
		}
		return true
	})
}

func carries(r *http.Request, s *openapi3.SecurityScheme) bool {
	if s.Type != "apiKey" { // http, oauth2, openIdConnect
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		return token != "" && (s.Type != "http" || strings.EqualFold(scheme, s.Scheme))
	}
	switch s.In {
	case openapi3.ParameterInQuery:
		return r.URL.Query().Get(s.Name) != ""
	case openapi3.ParameterInCookie:
		return slices.ContainsFunc(r.Cookies(), func(c *http.Cookie) bool { return isCookie(c.Name, s.Name) })
	}
	return r.Header.Get(s.Name) != ""
}

// isCookie reports whether the cookie is the documented one. The cookies of a launch
// have its ID in their names (specification 5.5), for which the document has a
// placeholder.
func isCookie(name, documented string) bool {
	prefix, perLaunch := strings.CutSuffix(strings.Trim(documented, "{}<>"), "launchId")
	if perLaunch {
		return strings.HasPrefix(name, strings.TrimRight(prefix, "{<"))
	}
	return name == documented
}

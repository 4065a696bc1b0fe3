package oapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"
)

// credentialSet is a security alternative: all of its schemes are required. An empty
// one requires no credential.
type credentialSet []Authenticator

// setSecurity sets the authenticators of the operation. Alternatives with cookies
// only come last: browsers send cookies automatically, so an explicit header or
// query credential takes precedence.
func (o *operation) setSecurity(s *spec, op *endpoint, authenticators map[string]Authenticator) error {
	requirements := s.Security
	if op.Security != nil {
		requirements = *op.Security
	}
	if requirements == nil {
		return errors.New("security is missing; a public operation needs security: []")
	}
	o.info.Public = len(requirements) == 0
	var cookieOnly []credentialSet
	for _, requirement := range requirements {
		way, explicit := credentialSet{}, false
		for _, name := range slices.Sorted(maps.Keys(requirement)) {
			authenticate := authenticators[name]
			if authenticate == nil {
				return fmt.Errorf("security scheme %s has no authenticator", name)
			}
			way = append(way, authenticate)
			o.addScheme(name)
			location, parameter := s.credentialLocation(name)
			if location == inQuery {
				o.credentials = append(o.credentials, parameter)
			}
			explicit = explicit || location != inCookie
		}
		if explicit {
			o.security = append(o.security, way)
		} else {
			cookieOnly = append(cookieOnly, way)
		}
	}
	o.security = append(o.security, cookieOnly...)
	return nil
}

// credentialLocation is the place of a scheme's credential in a request, and its name
// there.
func (s *spec) credentialLocation(scheme string) (location, name string) {
	if definition := s.Components.SecuritySchemes[scheme]; definition != nil {
		return definition.In, definition.Name
	}
	return "", ""
}

// admit authenticates and authorizes a request and sets its new context.
func (g *Guard) admit(c echo.Context, o *operation, again bool) error {
	r, err := o.authenticate(c.Request())
	if err != nil {
		return err
	}
	if g.authorize != nil {
		info := o.info
		info.Params, info.Again = pathParams(c, o), again
		ctx, err := g.authorize(r.Context(), info)
		if err != nil {
			return err
		}
		r = withContext(ctx, r)
	}
	if r != c.Request() {
		c.SetRequest(r)
	}
	return nil
}

// authenticate tries the alternatives in order. The first alternative whose
// credentials are all present, or an invalid credential, decides.
func (o *operation) authenticate(r *http.Request) (*http.Request, error) {
	if o.info.Public {
		return r, nil
	}
	for _, way := range o.security {
		admitted, err := way.authenticate(r)
		switch {
		case err == nil:
			return admitted, nil
		case !errors.Is(err, ErrNoCredential):
			return nil, o.refuse(r, err)
		}
	}
	return nil, o.refuse(r, ErrNoCredential)
}

func (a credentialSet) authenticate(r *http.Request) (*http.Request, error) {
	for _, authenticate := range a {
		ctx, err := authenticate(r)
		if err != nil {
			return nil, err
		}
		r = withContext(ctx, r)
	}
	return r, nil
}

func withContext(ctx context.Context, r *http.Request) *http.Request {
	if ctx == nil || ctx == r.Context() {
		return r
	}
	return r.WithContext(ctx)
}

// pathParams returns the path parameters under the document's names.
func pathParams(c echo.Context, o *operation) map[string]string {
	if len(o.path) == 0 {
		return nil
	}
	params := make(map[string]string, len(o.path))
	for i, p := range o.path {
		params[p.name], _ = pathParam(c, i)
	}
	return params
}

// pathParam returns the value of the i-th placeholder, decoded like in the generated
// code. Echo decodes it itself unless the path contains certain escapes.
func pathParam(c echo.Context, i int) (value string, ok bool) {
	values := c.ParamValues()
	if i >= len(values) {
		return "", false
	}
	if c.Request().URL.RawPath == "" {
		return values[i], true
	}
	value, err := url.PathUnescape(values[i])
	return value, err == nil
}

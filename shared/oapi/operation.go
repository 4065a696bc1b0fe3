package oapi

import (
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"
)

// operation is a compiled operation of the document.
type operation struct {
	info       Operation // without Params
	security   []credentialSet
	path       []*param // in the order of the pattern's placeholders
	query      map[string]*param
	queryOrder []*param // the query parameters in the document's order
	header     []*param
	concrete   []concretePath
	// credentials are the query parameters of security schemes.
	credentials []string
	required    []string // the credentials of which one is required, for messages
	keys        []KeyKind
	// selfAuthorizing operations authorize the caller themselves, before Inspect.
	selfAuthorizing bool
	body            *bodyRule
	maxBody         int64 // in bytes
}

// param is a compiled parameter.
type param struct {
	name      string
	location  string
	required  bool
	list      bool   // of rule.array.items
	split     string // the separator of list items; "" if the parameter is repeated
	rule      *rule
	shownOnce bool // see OperationsWithHeader
}

// bodyRule has the accepted media types and schemas of a body.
type bodyRule struct {
	required bool
	accepts  []string         // the media types, for messages
	schemas  map[string]*rule // by media type; nil for bodies that are not validated
}

// anyOrganization is the only value of x-active-organization.
const anyOrganization = "any"

// pattern normalizes a route: each placeholder becomes a colon, so `/a/{id}`,
// `/a/:id` and `/a/*` are equal.
func pattern(dst []byte, route string) []byte {
	for i := 0; i < len(route); i++ {
		atStart := i > 0 && route[i-1] == '/'
		if c := route[i]; atStart && (c == ':' || c == '{' || c == '*') {
			dst = append(dst, ':')
			for i+1 < len(route) && route[i+1] != '/' {
				i++
			}
			continue
		}
		dst = append(dst, route[i])
	}
	return dst
}

// placeholders returns the parameter names of a path, in order.
func placeholders(path string) []string {
	var names []string
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, "{") {
			names = append(names, strings.Trim(part, "{}"))
		}
	}
	return names
}

// operation compiles an operation of the document.
func (c *compiler) operation(path, method string, item *pathItem, op *endpoint) (*operation, error) {
	roles, err := rolesOf(op)
	if err != nil {
		return nil, err
	}
	if op.ActiveOrg != nil && op.ActiveOrg != anyOrganization {
		return nil, fmt.Errorf("x-active-organization must be %s, not %v", anyOrganization, op.ActiveOrg)
	}
	o := &operation{
		info: Operation{
			ID: op.OperationID, Method: method, Path: path, Roles: roles, Scope: op.Scope, AnyOrganization: op.ActiveOrg == anyOrganization,
		},
		query: map[string]*param{}, maxBody: op.MaxBody,
	}
	if err := c.params(o, item.Parameters, op.Parameters); err != nil {
		return nil, err
	}
	if op.RequestBody != nil {
		o.body, err = c.body(c.spec.requestBody(op.RequestBody))
	}
	return o, err
}

func rolesOf(op *endpoint) ([]string, error) {
	if op.Roles == nil {
		return nil, nil
	}
	list, ok := op.Roles.([]any)
	roles := make([]string, 0, len(list))
	for _, v := range list {
		role, isText := v.(string)
		ok = ok && isText
		roles = append(roles, role)
	}
	if !ok {
		return nil, fmt.Errorf("x-roles must be a list of names, not %v", op.Roles)
	}
	return roles, nil
}

func (c *compiler) params(o *operation, shared, own []*parameter) error {
	all := make([]*parameter, 0, len(own)+len(shared))
	for _, ref := range own {
		all = append(all, c.spec.parameter(ref))
	}
	for _, ref := range shared {
		p := c.spec.parameter(ref)
		if !slices.ContainsFunc(all, func(o *parameter) bool { return o.In == p.In && o.Name == p.Name }) {
			all = append(all, p)
		}
	}
	o.path = make([]*param, len(placeholders(o.info.Path)))
	for _, source := range all {
		p, err := c.param(source)
		if err != nil {
			return fmt.Errorf("parameter %s: %w", source.Name, err)
		}
		switch p.location {
		case inPath:
			if i := slices.Index(placeholders(o.info.Path), p.name); i >= 0 {
				o.path[i] = p
			}
		case inQuery:
			o.query[p.name] = p
			o.queryOrder = append(o.queryOrder, p)
		case inHeader:
			o.header = append(o.header, p)
		default:
			return fmt.Errorf("parameter %s: parameters in %s are not supported", p.name, p.location)
		}
	}
	if i := slices.Index(o.path, nil); i >= 0 {
		return fmt.Errorf("path parameter %s is not declared", placeholders(o.info.Path)[i])
	}
	return nil
}

func (c *compiler) param(source *parameter) (*param, error) {
	if source.Schema == nil {
		return nil, errors.New("schema is missing")
	}
	r, err := c.compile(source.Schema)
	if err != nil {
		return nil, err
	}
	p := &param{name: source.Name, location: source.In, required: source.Required, rule: r, shownOnce: source.ShownOnce}
	if !r.isArrayOfText() && !r.isText() {
		return nil, errors.New("schema must be a string, a number, a boolean or an array of these")
	}
	if r.kinds&kindArray == 0 {
		return p, nil
	}
	p.list = true
	style, explode := source.serialization()
	switch {
	case style == "form" && explode:
	case style == "form", style == "simple":
		p.split = ","
	default:
		return nil, fmt.Errorf("style %s is not supported", style)
	}
	return p, nil
}

// isText reports whether a single string in a path, query or header can represent
// the value.
func (r *rule) isText() bool {
	if r.oneOf != nil || r.anyOf != nil || r.not != nil || r.kinds&(kindArray|kindObject) != 0 {
		return false
	}
	for _, part := range r.allOf {
		if !part.isText() {
			return false
		}
	}
	return r.kinds != 0 || len(r.allOf) > 0
}

func (r *rule) isArrayOfText() bool {
	return r.kinds == kindArray && r.array.items != nil && r.array.items.isText()
}

func (c *compiler) body(source *requestBody) (*bodyRule, error) {
	b := &bodyRule{required: source.Required, schemas: map[string]*rule{}}
	for name, media := range source.Content {
		base, _, err := mime.ParseMediaType(name)
		if err != nil {
			return nil, fmt.Errorf("media type %q: %w", name, err)
		}
		b.accepts = append(b.accepts, base)
		b.schemas[base] = nil
		if !isJSON(base) {
			continue
		}
		r, err := c.compile(media.Schema)
		if err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		if r == nil {
			r = &anyValue
		}
		b.schemas[base] = r
	}
	slices.Sort(b.accepts)
	return b, nil
}

func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}

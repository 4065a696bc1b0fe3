package oapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// spec has the parts of a bundled document that are needed to validate requests. A
// reference is a value with only Ref set. A spec is large, so it is dropped after
// compilation.
type spec struct {
	Info     struct{ Version string }
	Security []requirement
	Paths    map[string]*pathItem

	Components struct {
		Schemas         map[string]*schema
		Parameters      map[string]*parameter
		RequestBodies   map[string]*requestBody
		SecuritySchemes map[string]*securityScheme
	}
}

func readSpec(text []byte) (*spec, error) {
	var s spec
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	return &s, nil
}

// requirement has the security schemes of one security alternative.
type requirement map[string][]string

type pathItem struct {
	Parameters []*parameter

	Get, Put, Post, Delete, Options, Head, Patch, Trace *endpoint
}

// endpoints returns the operations of a path by method.
func (p *pathItem) endpoints() map[string]*endpoint {
	all := map[string]*endpoint{
		"GET": p.Get, "PUT": p.Put, "POST": p.Post, "DELETE": p.Delete,
		"OPTIONS": p.Options, "HEAD": p.Head, "PATCH": p.Patch, "TRACE": p.Trace,
	}
	for method, e := range all {
		if e == nil {
			delete(all, method)
		}
	}
	return all
}

type endpoint struct {
	OperationID  string
	Tags         []string
	Deprecated   bool
	Security     *[]requirement
	Parameters   []*parameter
	RequestBody  *requestBody
	Guard        string `json:"x-guard"`
	Roles        any    `json:"x-roles"`
	Scope        string `json:"x-scope"`
	ActiveOrg    any    `json:"x-active-organization"`
	MaxBody      int64  `json:"x-max-body"`
	DeprecatedAt any    `json:"x-deprecated-at"`
	Sunset       any    `json:"x-sunset"`
}

type parameter struct {
	Ref       string `json:"$ref"`
	Name, In  string
	Required  bool
	Style     string
	Explode   *bool
	Schema    *schema
	ShownOnce bool `json:"x-shown-once"`
}

// The locations of parameters and credentials.
const (
	inPath   = "path"
	inQuery  = "query"
	inHeader = "header"
	inCookie = "cookie"
)

// serialization returns the style and explode of the parameter, with the defaults
// of OpenAPI.
func (p *parameter) serialization() (style string, explode bool) {
	style = p.Style
	if style == "" {
		style = "simple"
		if p.In == inQuery || p.In == inCookie {
			style = "form"
		}
	}
	if p.Explode != nil {
		return style, *p.Explode
	}
	return style, style == "form"
}

type requestBody struct {
	Ref      string `json:"$ref"`
	Required bool
	Content  map[string]struct{ Schema *schema }
}

type securityScheme struct {
	Ref      string `json:"$ref"`
	In, Name string
}

type schema struct {
	Ref string `json:"$ref"`

	Type, Format, Pattern         string
	Nullable, ReadOnly, WriteOnly bool
	Enum                          []any
	MinLength                     int
	MaxLength                     *int

	Minimum, Maximum, MultipleOf       *float64
	ExclusiveMinimum, ExclusiveMaximum bool

	MinItems    int
	MaxItems    *int
	UniqueItems bool
	Items       *schema

	Properties           map[string]*schema
	Required             []string
	MinProperties        int
	MaxProperties        *int
	AdditionalProperties additional
	AllOf, OneOf, AnyOf  []*schema
	Not                  *schema
	Discriminator        *discriminator
}

type discriminator struct {
	PropertyName string
	Mapping      map[string]string
}

// additional is additionalProperties: anything, nothing, or a schema.
type additional struct {
	none   bool
	schema *schema
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *additional) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("{")) {
		return json.Unmarshal(text, &a.schema)
	}
	var any bool
	err := json.Unmarshal(text, &any)
	a.none = !any
	return err
}

// isEmpty reports whether the schema allows everything.
func (s *schema) isEmpty() bool { return reflect.ValueOf(*s).IsZero() }

func (s *spec) parameter(p *parameter) *parameter {
	if p.Ref == "" {
		return p
	}
	return s.Components.Parameters[componentName(p.Ref)]
}

func (s *spec) requestBody(b *requestBody) *requestBody {
	if b.Ref == "" {
		return b
	}
	return s.Components.RequestBodies[componentName(b.Ref)]
}

func (s *spec) schema(ref *schema) *schema {
	if ref.Ref == "" {
		return ref
	}
	return s.Components.Schemas[componentName(ref.Ref)]
}

// secretNames returns the names of all secret members, and of the query parameters
// of security schemes.
func (s *spec) secretNames() map[string]bool {
	names := map[string]bool{}
	for _, scheme := range s.Components.SecuritySchemes {
		if scheme.In == inQuery {
			names[scheme.Name] = true
		}
	}
	for _, component := range s.Components.Schemas {
		for name, property := range component.Properties {
			if p := s.schema(property); p.WriteOnly || p.Format == "password" {
				names[name] = true
			}
		}
	}
	return names
}

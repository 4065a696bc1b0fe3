package oapi

import (
	"fmt"
	"math"
	"regexp"
	"slices"
)

// rule is a compiled schema.
type rule struct {
	name     string // of the component, if any
	kinds    kind   // the permitted kinds; 0 permits all
	typ      string // the declared type, for messages
	nullable bool
	readOnly bool
	secret   bool // the value is never included in a response
	enum     []any
	text     textRule
	number   numberRule
	array    arrayRule
	object   objectRule
	allOf    []*rule
	not      *rule
	// exclusive are members that must not all be present.
	exclusive []string
	oneOf     *union
	anyOf     *union
}

type textRule struct {
	min, max   int // characters; max < 0 is unbounded
	pattern    *regexp.Regexp
	source     string // the pattern as the document has it
	format     string
	wellFormed func([]byte) bool // nil accepts all
}

type numberRule struct {
	integer          bool
	min, max         *float64
	exclMin, exclMax bool
	multipleOf       *float64
	low, high        int64   // the range of the generated Go integer
	limit            float64 // the range of the generated Go float
}

type arrayRule struct {
	min, max int // items; max < 0 is unbounded
	unique   bool
	items    *rule // nil accepts all
}

type objectRule struct {
	props    map[string]*rule
	required []string
	closed   bool
	extra    *rule // for members that are not props; nil accepts all
	min, max int   // of members; max < 0 is unbounded
}

// anyValue is the rule of a value without a schema: it must still be storable and
// decodable.
var anyValue = rule{
	text:   textRule{max: -1},
	number: numberRule{limit: math.MaxFloat64},
	array:  arrayRule{max: -1},
	object: objectRule{max: -1},
}

// compiler compiles each schema once, so that a recursive schema becomes a
// recursive rule.
type compiler struct {
	spec     *spec
	compiled map[*schema]*rule
}

func (c *compiler) compile(ref *schema) (*rule, error) {
	if ref == nil {
		return nil, nil
	}
	target := c.spec.schema(ref)
	if r, ok := c.compiled[target]; ok {
		return r, nil
	}
	r := &rule{}
	c.compiled[target] = r
	if err := c.fill(r, target); err != nil {
		return nil, err
	}
	r.name = componentName(ref.Ref)
	return r, nil
}

func componentName(ref string) string {
	return ref[max(0, lastSlash(ref)+1):]
}

func lastSlash(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '/' {
			return i
		}
	}
	return -1
}

var kindOf = map[string]kind{
	"string":  kindString,
	"number":  kindNumber,
	"integer": kindNumber,
	"boolean": kindBool,
	"array":   kindArray,
	"object":  kindObject,
}

func (c *compiler) fill(r *rule, s *schema) error {
	r.typ, r.kinds = s.Type, kindOf[s.Type]
	r.nullable, r.readOnly, r.enum = s.Nullable, s.ReadOnly, s.Enum
	if r.nullable { // null is checked before the enum
		r.enum = slices.DeleteFunc(slices.Clone(r.enum), func(value any) bool { return value == nil })
	}
	r.secret = s.WriteOnly || s.Format == "password"
	r.number = numberRuleOf(s)
	var err error
	if r.text, err = textRuleOf(s); err != nil {
		return err
	}
	r.array = arrayRule{min: s.MinItems, max: bound(s.MaxItems), unique: s.UniqueItems}
	if r.array.items, err = c.compile(s.Items); err != nil {
		return fmt.Errorf("items: %w", err)
	}
	if err := c.fillObject(&r.object, s); err != nil {
		return err
	}
	return c.fillComposed(r, s)
}

func (c *compiler) fillObject(o *objectRule, s *schema) (err error) {
	o.min, o.max = s.MinProperties, bound(s.MaxProperties)
	o.closed = s.AdditionalProperties.none
	if o.extra, err = c.compile(s.AdditionalProperties.schema); err != nil {
		return fmt.Errorf("additionalProperties: %w", err)
	}
	o.props = make(map[string]*rule, len(s.Properties))
	for name, ref := range s.Properties {
		if o.props[name], err = c.compile(ref); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range s.Required {
		// A request need not contain read-only members.
		if p := o.props[name]; p == nil || !p.readOnly {
			o.required = append(o.required, name)
		}
	}
	return nil
}

func (c *compiler) fillComposed(r *rule, s *schema) (err error) {
	if r.allOf, err = c.compileAll(s.AllOf); err != nil {
		return fmt.Errorf("allOf: %w", err)
	}
	if inner := c.doubleNegated(s); inner != nil {
		part, err := c.compile(inner)
		if err != nil {
			return fmt.Errorf("not: not: %w", err)
		}
		r.allOf = append(r.allOf, part)
	} else if names := c.exclusive(s); names != nil {
		r.exclusive = names
	} else if r.not, err = c.compile(s.Not); err != nil {
		return fmt.Errorf("not: %w", err)
	}
	if r.oneOf, err = c.union("oneOf", s.OneOf, s.Discriminator); err != nil {
		return err
	}
	r.anyOf, err = c.union("anyOf", s.AnyOf, s.Discriminator)
	return err
}

// doubleNegated returns the schema in a `not` of a `not`, which is equivalent to the
// schema itself but would produce no useful findings; otherwise nil.
func (c *compiler) doubleNegated(s *schema) *schema {
	if s.Not == nil {
		return nil
	}
	denied := *c.spec.schema(s.Not)
	inner := denied.Not
	if denied.Not = nil; !denied.isEmpty() {
		return nil
	}
	return inner
}

// exclusive returns the members that must not all be present, if that is what the
// schema's `not` means; otherwise nil.
func (c *compiler) exclusive(s *schema) []string {
	if s.Not == nil {
		return nil
	}
	denied := *c.spec.schema(s.Not)
	names := denied.Required
	denied.Required = nil
	if denied.Type == "object" {
		denied.Type = ""
	}
	if len(names) < 2 || !denied.isEmpty() {
		return nil
	}
	return names
}

func (c *compiler) compileAll(refs []*schema) ([]*rule, error) {
	rules := make([]*rule, 0, len(refs))
	for i, ref := range refs {
		r, err := c.compile(ref)
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func bound(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}

func textRuleOf(s *schema) (textRule, error) {
	t := textRule{min: s.MinLength, max: bound(s.MaxLength), source: s.Pattern}
	if s.Pattern != "" {
		re, err := regexp.Compile(goPattern(s.Pattern))
		if err != nil {
			return t, fmt.Errorf("pattern: %w", err)
		}
		t.pattern = re
	}
	if s.Format != "" && s.Type == "string" {
		check, ok := textFormats[s.Format]
		if !ok {
			return t, fmt.Errorf("unsupported string format %q", s.Format)
		}
		t.format, t.wellFormed = s.Format, check
	}
	return t, nil
}

func numberRuleOf(s *schema) numberRule {
	n := numberRule{
		integer: s.Type == "integer",
		min:     s.Minimum, max: s.Maximum, multipleOf: s.MultipleOf,
		exclMin: s.ExclusiveMinimum,
		exclMax: s.ExclusiveMaximum,
		low:     math.MinInt64, high: math.MaxInt64,
		limit: math.MaxFloat64,
	}
	switch {
	case n.integer && s.Format == "int32":
		n.low, n.high = math.MinInt32, math.MaxInt32
	case !n.integer && s.Type == "number" && s.Format != "double":
		n.limit = math.MaxFloat32 // the generated code uses float32
	}
	return n
}

// holdsSecret reports whether a value of this rule can contain a secret.
func (r *rule) holdsSecret(visited map[*rule]bool) bool {
	if r == nil || visited[r] {
		return false
	}
	if r.secret {
		return true
	}
	visited[r] = true
	inner := slices.Concat([]*rule{r.array.items, r.object.extra, r.not}, r.allOf)
	for _, p := range r.object.props {
		inner = append(inner, p)
	}
	for _, u := range []*union{r.oneOf, r.anyOf} {
		if u != nil {
			inner = append(inner, u.branches...)
		}
	}
	return slices.ContainsFunc(inner, func(r *rule) bool { return r.holdsSecret(visited) })
}

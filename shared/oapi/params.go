package oapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
)

// params validates the path, query and header parameters of a request.
func (c *checker) params(ctx echo.Context, o *operation) {
	r := ctx.Request()
	for i, p := range o.path {
		value, ok := pathParam(ctx, i)
		if !ok {
			c.param = p.name
			c.report(finding{code: fault.InvalidFormat, message: "is not valid percent-encoding", constraint: map[string]any{"format": "percent-encoding"}})
			continue
		}
		if value == "" {
			c.param = p.name
			c.report(finding{code: fault.Required, message: "is required"})
			continue
		}
		c.values(p, []string{value})
	}
	c.query(ctx, o)
	for _, p := range o.header {
		c.optionalParam(p, r.Header[http.CanonicalHeaderKey(p.name)])
	}
	c.param = ""
}

func (c *checker) query(ctx echo.Context, o *operation) {
	raw := ctx.Request().URL.RawQuery
	if raw == "" && len(o.query) == 0 {
		return
	}
	if strings.ContainsAny(raw, "%;") {
		// Echo would silently drop invalid pairs.
		if _, err := url.ParseQuery(raw); err != nil {
			c.param = "query"
			c.report(finding{code: fault.InvalidFormat, message: "is not a well-formed query string", constraint: map[string]any{"format": "percent-encoding"}})
		}
	}
	values := ctx.QueryParams()
	for _, p := range o.queryOrder {
		c.optionalParam(p, values[p.name])
	}
	var unknown []string
	for name := range values {
		if o.query[name] == nil && !slices.Contains(o.credentials, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		f := finding{code: fault.UnrecognizedKey, message: "is not a known query parameter"}
		if !c.namesSecret(name) { // such as a token for another operation
			f.received = receivedValues(values[name])
		}
		c.param = clipName(name)
		c.report(f)
	}
}

// optionalParam checks a parameter that may be missing.
func (c *checker) optionalParam(p *param, values []string) {
	switch {
	case len(values) > 0:
		c.values(p, values)
	case p.required:
		c.param = p.name
		c.report(finding{code: fault.Required, message: "is required"})
	}
}

// values validates the values of a parameter; there is at least one.
func (c *checker) values(p *param, values []string) {
	c.param, c.path = p.name, c.path[:0]
	if (!p.list || p.split != "") && len(values) > 1 {
		c.report(finding{code: fault.Custom, message: "is given more than once", constraint: map[string]any{"max": 1}, received: receivedParam(p.rule, values)})
		return
	}
	if !p.list {
		c.literal(p.rule, values[0])
		return
	}
	if p.split != "" {
		values = strings.Split(values[0], p.split)
	}
	c.list(p.rule, values)
}

// receivedParam returns the values of a parameter for an answer.
func receivedParam(r *rule, values []string) any {
	if r.holdsSecret(map[*rule]bool{}) {
		return nil
	}
	return receivedValues(values)
}

// list validates an array parameter.
func (c *checker) list(r *rule, values []string) {
	a := r.array
	switch {
	case len(values) < a.min:
		c.report(finding{code: fault.ArrayTooShort, message: "must have at least " + count(a.min, "item"), constraint: a.bounds(), received: receivedParam(r, values)})
		return
	case a.max >= 0 && len(values) > a.max:
		c.report(finding{code: fault.ArrayTooLong, message: "must have at most " + count(a.max, "item"), constraint: a.bounds(), received: receivedParam(r, values)})
		return
	case a.unique && len(slices.Compact(slices.Sorted(slices.Values(values)))) < len(values):
		c.report(finding{code: fault.Custom, message: "must not contain duplicate items", constraint: map[string]any{"unique": true}, received: receivedParam(r, values)})
		return
	}
	for i, value := range values {
		if c.done() {
			return
		}
		c.path = append(c.path[:0], step{item: i})
		c.literal(a.items, value)
	}
	c.path = c.path[:0]
}

// literal validates a value that is sent as text.
func (c *checker) literal(r *rule, value string) {
	if !isStorable(value) {
		c.report(unstorableText(receivedText(value)))
		return
	}
	if r.secret {
		c.secret = true
		defer func() { c.secret = false }()
	}
	before := c.failed
	switch {
	case r.kinds == 0: // the error of a composed schema is more specific
	case r.kinds&kindString != 0:
		if r.enum == nil {
			c.text(r, []byte(value))
		}
	case r.kinds&kindBool != 0:
		if value != "true" && value != "false" {
			c.report(typeFinding(r, value))
		}
	default:
		c.numeral(r, value)
	}
	if c.failed == before && r.enum != nil && !r.allowsLiteral(value) {
		c.report(r.enumFinding(receivedText(value)))
	}
	for _, part := range r.allOf {
		c.literal(part, value)
	}
}

func typeFinding(r *rule, value string) finding {
	return finding{code: fault.InvalidType, message: typeMessage(r.typ, 0), constraint: typeConstraint(r.typ), received: receivedText(value)}
}

// numeral validates a number that is sent as text. An integer must consist of
// digits, because the generated binding code accepts nothing else.
func (c *checker) numeral(r *rule, value string) {
	t := tape{text: []byte(value)}
	if err := t.number(); err != nil || t.pos < len(value) {
		c.report(typeFinding(r, value))
		return
	}
	switch n, v := parseInteger(value); {
	case !r.number.integer:
		c.number(r, value, receivedText)
	case strings.ContainsAny(value, "eE"):
		c.report(typeFinding(r, value))
	case strings.Contains(value, "."):
		c.integer(r, value, 0, isFraction, receivedText)
	default:
		c.integer(r, value, n, v, receivedText)
	}
}

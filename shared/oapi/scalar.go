package oapi

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/browser-svc/svc/shared/fault"
)

// text validates a string without NUL and invalid Unicode.
func (c *checker) text(r *rule, s []byte) {
	t := &r.text
	if t.min == 0 && t.max < 0 && t.pattern == nil && t.wellFormed == nil {
		return
	}
	length := utf8.RuneCount(s)
	switch {
	case length < t.min:
		c.report(finding{code: fault.TooShort, message: "must be at least " + count(t.min, "character") + " long", constraint: t.bounds(), received: receivedText(string(s))})
	case t.max >= 0 && length > t.max:
		c.report(finding{code: fault.TooLong, message: "must be at most " + count(t.max, "character") + " long", constraint: t.bounds(), received: receivedText(string(s))})
	case t.wellFormed != nil && !t.wellFormed(s):
		c.report(finding{code: fault.InvalidFormat, message: "must be " + formatNouns[t.format], constraint: map[string]any{"format": t.format}, received: receivedText(string(s))})
	case t.pattern != nil && !t.pattern.Match(s):
		c.report(finding{code: fault.InvalidPattern, message: "must match the pattern " + t.source, constraint: map[string]any{"pattern": t.source}, received: receivedText(string(s))})
	}
}

func (t *textRule) bounds() map[string]any { return limits(t.min > 0, t.min, t.max >= 0, t.max) }

// numberNode validates a number of the body. It rewrites an integer such as 1e2
// that encoding/json cannot decode into a Go integer.
func (c *checker) numberNode(r *rule, i int32) {
	literal := string(c.tape.raw(i))
	if !r.number.integer {
		c.number(r, literal, receivedNumber)
		return
	}
	n, verdict := parseInteger(literal)
	c.integer(r, literal, n, verdict, receivedNumber)
	if verdict == isWhole && c.quiet == 0 && slices.ContainsFunc(c.tape.raw(i), isNotDigit) {
		c.edits = append(c.edits, edit{c.tape.nodes[i].raw, strconv.FormatInt(n, 10)})
	}
}

func isNotDigit(b byte) bool { return b != '-' && (b < '0' || b > '9') }

// receivedFunc converts a text that was sent to a value for an answer.
type receivedFunc func(literal string) any

// number validates a number that may have a fraction.
func (c *checker) number(r *rule, literal string, received receivedFunc) {
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil || math.Abs(f) > r.number.limit {
		edge, code, message := r.number.limit, fault.TooBig, "is too large"
		key := "max"
		if literal[0] == '-' {
			edge, code, message, key = -edge, fault.TooSmall, "is too small", "min"
		}
		c.report(finding{code: code, message: message, constraint: map[string]any{key: edge}, received: received(literal)})
		return
	}
	c.bounds(r, f, literal, received)
}

// integer validates an integer. n and v are the results of parseInteger.
func (c *checker) integer(r *rule, literal string, n int64, v integerKind, received receivedFunc) {
	rule := &r.number
	switch {
	case v == isFraction:
		c.report(finding{code: fault.NotInteger, message: "must be a whole number", constraint: typeConstraint("integer"), received: received(literal)})
	case v == isTooBig || (v == isWhole && n > rule.high):
		top := rule.high
		if rule.max != nil && *rule.max < float64(top) {
			top = int64(*rule.max)
		}
		c.report(finding{code: fault.TooBig, message: "must be at most " + strconv.FormatInt(top, 10), constraint: rule.boundsOr("max", top), received: received(literal)})
	case v == isTooSmall || n < rule.low:
		bottom := rule.low
		if rule.min != nil && *rule.min > float64(bottom) {
			bottom = int64(*rule.min)
		}
		c.report(finding{code: fault.TooSmall, message: "must be at least " + strconv.FormatInt(bottom, 10), constraint: rule.boundsOr("min", bottom), received: received(literal)})
	default:
		c.bounds(r, float64(n), literal, received)
	}
}

// bounds validates the minimum, maximum and multipleOf of the schema.
func (c *checker) bounds(r *rule, f float64, literal string, received receivedFunc) {
	n := &r.number
	switch {
	case n.min != nil && f < *n.min:
		c.report(finding{code: fault.TooSmall, message: "must be at least " + formatFloat(*n.min), constraint: n.constraint(), received: received(literal)})
	case n.min != nil && n.exclMin && f == *n.min:
		c.report(finding{code: fault.TooSmall, message: "must be greater than " + formatFloat(*n.min), constraint: n.constraint(), received: received(literal)})
	case n.max != nil && f > *n.max:
		c.report(finding{code: fault.TooBig, message: "must be at most " + formatFloat(*n.max), constraint: n.constraint(), received: received(literal)})
	case n.max != nil && n.exclMax && f == *n.max:
		c.report(finding{code: fault.TooBig, message: "must be less than " + formatFloat(*n.max), constraint: n.constraint(), received: received(literal)})
	case n.multipleOf != nil && !isMultiple(f, *n.multipleOf):
		c.report(finding{code: fault.Custom, message: "must be a multiple of " + formatFloat(*n.multipleOf), constraint: map[string]any{"multipleOf": *n.multipleOf}, received: received(literal)})
	}
}

// isMultiple tolerates rounding errors: 0.3 is a multiple of 0.1.
func isMultiple(f, step float64) bool {
	q := f / step
	return math.Abs(q-math.Round(q)) <= 1e-9*max(1, math.Abs(q))
}

func (n *numberRule) constraint() map[string]any {
	m := map[string]any{}
	if n.min != nil {
		m["min"] = *n.min
	}
	if n.max != nil {
		m["max"] = *n.max
	}
	if n.exclMin {
		m["exclusiveMin"] = true
	}
	if n.exclMax {
		m["exclusiveMax"] = true
	}
	return m
}

// boundsOr returns the constraint with one limit replaced.
func (n *numberRule) boundsOr(key string, limit int64) map[string]any {
	m := n.constraint()
	m[key] = limit
	return m
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// integerKind is the result of parsing a number literal as an integer.
type integerKind uint8

const (
	isWhole integerKind = iota
	isFraction
	isTooBig
	isTooSmall
)

// parseInteger returns the value of a JSON number literal that is an integer; 100, 1e2
// and 100.0 are equal. The result is exact, and a large exponent such as 1e999999999
// does not take longer.
func parseInteger(literal string) (int64, integerKind) {
	if n, err := strconv.ParseInt(literal, 10, 64); err == nil {
		return n, isWhole
	}
	digits, negative, exponent := splitDecimal(literal)
	switch {
	case len(digits) == 0:
		return 0, isWhole
	case exponent < 0:
		return 0, isFraction
	case len(digits)+exponent > 19:
		return 0, outOfRange(negative)
	}
	for range exponent {
		digits = append(digits, '0')
	}
	text := string(digits)
	if negative {
		text = "-" + text
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, outOfRange(negative)
	}
	return n, isWhole
}

func outOfRange(negative bool) integerKind {
	if negative {
		return isTooSmall
	}
	return isTooBig
}

// splitDecimal splits a number literal: its value is the digits, without leading and
// trailing zeros, times ten to the exponent.
func splitDecimal(literal string) (digits []byte, negative bool, exponent int) {
	fraction := false
	for i := 0; i < len(literal); i++ {
		switch b := literal[i]; b {
		case '-':
			negative = true
		case '.':
			fraction = true
		case 'e', 'E':
			// Any exponent beyond this is out of range, regardless of the digits.
			const far = 1 << 30
			e, err := strconv.Atoi(literal[i+1:])
			if err != nil {
				e = far
				if literal[i+1] == '-' {
					e = -far
				}
			}
			exponent += max(-far, min(far, e))
			i = len(literal)
		default:
			if fraction {
				exponent--
			}
			if b != '0' || len(digits) > 0 {
				digits = append(digits, b)
			}
		}
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		exponent++
	}
	return digits, negative, exponent
}

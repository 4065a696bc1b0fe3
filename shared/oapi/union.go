package oapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/fault"
)

// union is the oneOf or the anyOf of a schema.
type union struct {
	keyword  string // oneOf or anyOf
	branches []*rule
	// selectors has the property that only this branch requires, for each branch;
	// nil unless every branch has one.
	selectors []string
	// tag is the property of the discriminator; byTag maps its values to branches.
	tag   string
	byTag map[string]*rule
}

func (c *compiler) union(keyword string, refs []*schema, d *discriminator) (*union, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	branches, err := c.compileAll(refs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyword, err)
	}
	u := &union{keyword: keyword, branches: branches, selectors: c.findSelectors(refs)}
	if d == nil {
		return u, nil
	}
	u.tag, u.byTag = d.PropertyName, map[string]*rule{}
	for i, ref := range refs {
		u.byTag[componentName(ref.Ref)] = branches[i]
	}
	for value, target := range d.Mapping {
		i := slices.IndexFunc(refs, func(ref *schema) bool {
			return componentName(ref.Ref) == componentName(target)
		})
		if i < 0 {
			return nil, fmt.Errorf("discriminator: %q selects no branch", value)
		}
		delete(u.byTag, componentName(refs[i].Ref))
		u.byTag[value] = branches[i]
	}
	return u, nil
}

func (c *compiler) findSelectors(refs []*schema) []string {
	branches := make([]*schema, len(refs))
	for i, ref := range refs {
		branches[i] = c.spec.schema(ref)
	}
	selectors := make([]string, len(refs))
	for i, branch := range branches {
		index := slices.IndexFunc(branch.Required, func(name string) bool {
			for j, other := range branches {
				if i != j && (slices.Contains(other.Required, name) || other.Properties[name] != nil) {
					return false
				}
			}
			return true
		})
		if index < 0 {
			return nil
		}
		selectors[i] = branch.Required[index]
	}
	return selectors
}

// union validates a value against the alternatives. If none fits but the value
// identifies the intended one, its findings are reported.
func (c *checker) union(r *rule, u *union, i int32) {
	var fitting []*rule
	for _, branch := range u.branches {
		if c.passes(branch, i) {
			fitting = append(fitting, branch)
		}
	}
	fits := len(fitting) == 1 || (len(fitting) > 1 && u.keyword == "anyOf")
	switch {
	case c.quiet > 0:
		// Validating again at each level would take exponential time for a
		// recursive schema.
		if !fits {
			c.failed++
		}
		return
	case fits:
		c.value(fitting[0], i) // records its edits
		return
	}
	isObject := c.tape.nodes[i].kind == kindObject
	switch {
	case len(fitting) == 0 && isObject && u.tag != "":
		c.byDiscriminator(u, i)
	case isObject && u.selectors != nil: // a fitting branch has its selector, so several have several
		c.bySelector(u, i)
	case len(fitting) == 0 && u.branchForKind(c.tape.nodes[i].kind) != nil:
		c.value(u.branchForKind(c.tape.nodes[i].kind), i)
	default:
		message := "must match exactly one alternative"
		if u.keyword == "anyOf" {
			message = "must match at least one alternative"
		}
		c.report(finding{
			code: fault.InvalidUnion, message: message,
			constraint: map[string]any{u.keyword: u.names()}, received: c.received(r, i),
		})
	}
}

// byDiscriminator reports the findings of the branch that the discriminator selects.
func (c *checker) byDiscriminator(u *union, i int32) {
	tag, present := c.tape.textOf(i, u.tag)
	if branch := u.byTag[tag]; branch != nil {
		c.value(branch, i)
		return
	}
	tags := slices.Sorted(maps.Keys(u.byTag))
	f := finding{
		code: fault.InvalidEnumValue, message: "must be one of " + strings.Join(tags, ", "),
		constraint: map[string]any{"allowed": tags}, member: u.tag,
	}
	if !present {
		f.code, f.message = fault.Required, "is required"
	} else {
		f.received = receivedText(tag)
	}
	c.report(f)
}

// bySelector reports the findings of the branch whose selector the object has, or that
// it has none or several.
func (c *checker) bySelector(u *union, i int32) {
	var matches []*rule
	for b, name := range u.selectors {
		if c.tape.has(i, name) {
			matches = append(matches, u.branches[b])
		}
	}
	if len(matches) == 1 {
		c.value(matches[0], i)
		return
	}
	how := "exactly one of "
	if u.keyword == "anyOf" {
		how = "at least one of "
	}
	c.report(finding{
		code:       fault.InvalidUnion,
		message:    "supply " + how + strings.Join(u.selectors, " or "),
		constraint: map[string]any{u.keyword: u.selectors},
		member:     u.selectors[0],
		received:   c.receivedMember(i, u.selectors[0]),
	})
}

// exclusive reports an object that has all of these members.
func (c *checker) exclusive(names []string, i int32) {
	if c.tape.nodes[i].kind != kindObject {
		return
	}
	for _, name := range names {
		if !c.tape.has(i, name) {
			return
		}
	}
	c.report(finding{
		code:       fault.InvalidUnion,
		message:    "supply at most one of " + strings.Join(names, " or "),
		constraint: map[string]any{"oneOf": names},
		member:     names[0],
		received:   c.receivedMember(i, names[0]),
	})
}

// branchForKind returns the branch that accepts values of the kind, if there is exactly
// one.
func (u *union) branchForKind(k kind) *rule {
	var match *rule
	for _, branch := range u.branches {
		if branch.kinds == 0 || branch.kinds&k != 0 {
			if match != nil {
				return nil
			}
			match = branch
		}
	}
	return match
}

// names returns the names of the branches that have one in the document.
func (u *union) names() []string {
	names := make([]string, len(u.branches))
	for i, b := range u.branches {
		switch {
		case b.name != "":
			names[i] = b.name
		case b.typ != "":
			names[i] = b.typ
		default:
			names[i] = fmt.Sprintf("alternative %d", i+1)
		}
	}
	return names
}

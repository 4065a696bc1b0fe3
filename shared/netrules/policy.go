package netrules

import (
	"net/netip"
	"net/url"
	"slices"
)

// Level is the rules of one level with its name: organization, profile or launch.
type Level struct {
	Name  string
	Rules *Rules // nil: no rules
}

// Verdict is what a Policy decides. The zero value allows.
type Verdict struct {
	Denied bool
	Level  string // the level whose rule denies
	Rule   string // the rule, for example navigate.deny: *.example.com
}

// Policy has the rules of all levels: what one level denies, no other level can allow. It
// is safe for concurrent use. Nil allows everything.
type Policy struct{ levels []compiled }

type compiled struct {
	name              string
	rules             *Rules
	navigate, connect *filter
}

type filter struct {
	field       string
	everything  bool // there is no list of what is allowed
	allow, deny []pattern
}

// NewPolicy returns the policy of these levels. It returns nil if no level has rules, and
// an error for a pattern that Check refuses.
func NewPolicy(levels ...Level) (*Policy, error) {
	var p Policy
	for _, level := range levels {
		if level.Rules == nil {
			continue
		}
		c := compiled{name: level.Name, rules: level.Rules}
		var err error
		if c.navigate, err = compile("navigate", level.Rules.Navigate, parseURLPattern); err != nil {
			return nil, err
		}
		if c.connect, err = compile("connect", level.Rules.Connect, parseHostPattern); err != nil {
			return nil, err
		}
		p.levels = append(p.levels, c)
	}
	if p.levels == nil {
		return nil, nil
	}
	return &p, nil
}

func compile(field string, f *Filter, parse func(string) (pattern, error)) (*filter, error) {
	if f == nil {
		return nil, nil
	}
	parseAll := func(texts []string) (patterns []pattern, err error) {
		for _, text := range texts {
			p, err := parse(text)
			if err != nil {
				return nil, err
			}
			patterns = append(patterns, p)
		}
		return patterns, nil
	}
	c := &filter{field: field, everything: f.Allow == nil}
	var err error
	if c.allow, err = parseAll(f.Allow); err != nil {
		return nil, err
	}
	if c.deny, err = parseAll(f.Deny); err != nil {
		return nil, err
	}
	return c, nil
}

// decide returns the verdict of the first level whose filter denies what matches describes.
func (p *Policy) decide(choose func(*compiled) *filter, matches func(*pattern) bool, open bool) Verdict {
	if p == nil {
		return Verdict{}
	}
	for i := range p.levels {
		level := &p.levels[i]
		f := choose(level)
		if f == nil {
			continue
		}
		for j := range f.deny {
			if matches(&f.deny[j]) {
				return Verdict{Denied: true, Level: level.name, Rule: f.field + ".deny: " + f.deny[j].text}
			}
		}
		allowed := f.everything && open || slices.ContainsFunc(f.allow, func(allow pattern) bool { return matches(&allow) })
		if !allowed {
			return Verdict{Denied: true, Level: level.name, Rule: f.field + ".allow"}
		}
	}
	return Verdict{}
}

// Navigate decides about a document of this URL, as Chromium spells URLs. Schemes other
// than http and https are denied unless a pattern allows them, as soon as a level has a
// filter; blank documents are allowed.
func (p *Policy) Navigate(address string) Verdict {
	if address == "about:blank" || address == "about:srcdoc" || address == "" {
		return Verdict{}
	}
	u, err := url.Parse(address)
	if err != nil {
		u = &url.URL{Scheme: "invalid"}
	}
	return p.decide(func(c *compiled) *filter { return c.navigate }, func(p *pattern) bool { return p.matchesURL(u) }, isWeb(u))
}

// Connect decides about a connection to a host and port, before the host is resolved.
func (p *Policy) Connect(host string, port uint16) Verdict {
	host = NormalizeHost(host)
	return p.decide(func(c *compiled) *filter { return c.connect }, func(p *pattern) bool { return p.matchesHost(host, port) }, true)
}

// ConnectAddress decides about a connection to an address that a name was resolved to: the
// networks that are denied are denied by any name.
func (p *Policy) ConnectAddress(remote netip.AddrPort) Verdict {
	if p == nil {
		return Verdict{}
	}
	for _, level := range p.levels {
		if level.connect == nil {
			continue
		}
		for i := range level.connect.deny {
			if d := &level.connect.deny[i]; (d.port == 0 || d.port == remote.Port()) && d.matchesAddress(remote.Addr()) {
				return Verdict{Denied: true, Level: level.name, Rule: "connect.deny: " + d.text}
			}
		}
	}
	return Verdict{}
}

// readOnlyMethods are the methods that rules with readOnly allow.
var readOnlyMethods = []string{"GET", "HEAD", "OPTIONS"}

// Request decides about a request by its method and its resource type (image, media,
// font, ads; others are always allowed).
func (p *Policy) Request(method, resource string) Verdict {
	if p == nil {
		return Verdict{}
	}
	for _, level := range p.levels {
		if m := level.rules.Methods; m != nil && m.ReadOnly && !slices.Contains(readOnlyMethods, method) {
			return Verdict{Denied: true, Level: level.name, Rule: "methods.readOnly"}
		}
		if slices.Contains(level.rules.Block, resource) {
			return Verdict{Denied: true, Level: level.name, Rule: "block: " + resource}
		}
	}
	return Verdict{}
}

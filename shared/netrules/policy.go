package netrules

import (
	"net/netip"
	"slices"
	"strings"
)

// Level is the rules of one level with its name: organization, profile or launch.
type Level struct {
	Name  string
	Rules *Rules // nil: no rules
}

// Verdict is what a Policy decides. The zero value allows.
type Verdict struct {
	Denied bool
	Ask    bool   // denied unless a person allows it
	Level  string // the level whose rule decides
	Rule   string // the rule, for example navigate.deny: *.example.com; empty if no rule concerns the request
}

// String describes the rule that decides.
func (v Verdict) String() string { return "the rule " + v.Rule + " of the " + v.Level }

// Policy has the rules of all levels: what one level denies, no other level can allow. It
// is safe for concurrent use. Nil allows everything.
type Policy struct{ levels []compiled }

type compiled struct {
	name              string
	rules             *Rules
	navigate, connect *filter
}

type filter struct {
	field            string
	everything       bool // there is no list of what is allowed
	allow, ask, deny []pattern
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
	if field == "navigate" {
		parse = parseWebPattern
	}
	if c.ask, err = parseAll(f.Ask); err != nil {
		return nil, err
	}
	return c, nil
}

// decide returns the verdict of the first level whose filter denies what matches describes,
// or else of the first one that asks, or else of the first one with a pattern that allows.
func (p *Policy) decide(choose func(*compiled) *filter, matches func(*pattern) bool, open bool) (decided Verdict) {
	if p == nil {
		return Verdict{}
	}
	for i := range p.levels {
		level := &p.levels[i]
		f := choose(level)
		if f == nil {
			continue
		}
		v := f.decide(matches, open)
		v.Level = level.name
		if v.Denied && !v.Ask {
			return v
		}
		if v.Ask && !decided.Ask || v.Rule != "" && decided.Rule == "" {
			decided = v
		}
	}
	return decided
}

// decide returns the verdict without its level.
func (f *filter) decide(matches func(*pattern) bool, open bool) Verdict {
	for i := range f.deny {
		if matches(&f.deny[i]) {
			return Verdict{Denied: true, Rule: f.field + ".deny: " + f.deny[i].text}
		}
	}
	for i := range f.ask {
		if matches(&f.ask[i]) {
			return Verdict{Denied: true, Ask: true, Rule: f.field + ".ask: " + f.ask[i].text}
		}
	}
	if f.everything && open {
		return Verdict{}
	}
	for i := range f.allow {
		if matches(&f.allow[i]) {
			return Verdict{Rule: f.field + ".allow: " + f.allow[i].text}
		}
	}
	return Verdict{Denied: true, Rule: f.field + ".allow"}
}

// Navigate decides about a document of this URL, as Chromium spells URLs. Schemes other
// than http and https are denied unless a pattern allows them, as soon as a level has a
// filter; blank documents are allowed.
func (p *Policy) Navigate(address string) Verdict {
	if isBlank(address) {
		return Verdict{}
	}
	l := parseLocation(address)
	return p.decide(func(c *compiled) *filter { return c.navigate }, func(p *pattern) bool { return p.matchesLocation(l) }, l.isWeb())
}

// NavigateOther is Navigate for documents that are not requested from a server: those of
// schemes other than http and https. The URL may be as a client spells it.
func (p *Policy) NavigateOther(address string) Verdict {
	address = strings.TrimSpace(address)
	if parseLocation(address).isWeb() {
		return Verdict{}
	}
	return p.Navigate(address)
}

// isBlank reports whether a URL is that of a document without content.
func isBlank(address string) bool {
	name, _, _ := strings.Cut(address, "#")
	name, _, _ = strings.Cut(name, "?")
	return name == "about:blank" || name == "about:srcdoc" || name == ""
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

// FiltersNavigation reports whether Navigate can deny.
func (p *Policy) FiltersNavigation() bool {
	return p.has(func(r *Rules) bool { return r.Navigate != nil })
}

// FiltersPaths reports whether Navigate, or a person, can decide differently about two
// documents of one origin.
func (p *Policy) FiltersPaths() bool {
	hasPath := func(p pattern) bool { return p.path != nil }
	return p != nil && slices.ContainsFunc(p.levels, func(c compiled) bool {
		return c.navigate != nil && (len(c.navigate.ask) > 0 || slices.ContainsFunc(slices.Concat(c.navigate.allow, c.navigate.deny), hasPath))
	})
}

// FiltersRequests reports whether the verdict about a request can depend on more than its
// resource type.
func (p *Policy) FiltersRequests() bool {
	return p.has(func(r *Rules) bool { return r.Methods != nil && r.Methods.ReadOnly || r.MaxRequestsPerMinute != nil })
}

// Blocked returns the contents that are not loaded.
func (p *Policy) Blocked() (contents []string) {
	if p == nil {
		return nil
	}
	for _, level := range p.levels {
		contents = append(contents, level.rules.Block...)
	}
	slices.Sort(contents)
	return slices.Compact(contents)
}

func (p *Policy) has(property func(*Rules) bool) bool {
	return p != nil && slices.ContainsFunc(p.levels, func(c compiled) bool { return property(c.rules) })
}

// Uploads decides about the choice of files for pages.
func (p *Policy) Uploads() Verdict {
	return p.first("uploads", func(r *Rules) bool { return r.Uploads == "deny" })
}

// Downloads decides about downloads.
func (p *Policy) Downloads() Verdict {
	return p.first("downloads", func(r *Rules) bool { return r.Downloads == "deny" })
}

// Bytes decides about further traffic of a browser that has transferred this many bytes.
func (p *Policy) Bytes(transferred int64) Verdict {
	return p.first("maxBytes", func(r *Rules) bool { return r.MaxBytes != nil && transferred > *r.MaxBytes })
}

// LimitsBytes reports whether Bytes can deny.
func (p *Policy) LimitsBytes() bool { return p.has(func(r *Rules) bool { return r.MaxBytes != nil }) }

// Rate decides about one more request of a browser that has sent this many in the last
// minute.
func (p *Policy) Rate(sent int) Verdict {
	return p.first("maxRequestsPerMinute", func(r *Rules) bool {
		return r.MaxRequestsPerMinute != nil && sent >= int(*r.MaxRequestsPerMinute)
	})
}

// first returns the verdict of the first level with a rule that denies.
func (p *Policy) first(field string, denies func(*Rules) bool) Verdict {
	if p == nil {
		return Verdict{}
	}
	for _, level := range p.levels {
		if denies(level.rules) {
			return Verdict{Denied: true, Level: level.name, Rule: field}
		}
	}
	return Verdict{}
}

package proxy

import (
	"fmt"
	"net/netip"
	"strings"
)

// Patterns lists the denied hosts as patterns over what Chromium calls a host:
// names in lower case, addresses in their shortest form, IPv6 without brackets;
// * is any text, ? at most one character. They miss none that Denies knows of;
// of names that begin like a denied IPv4 network and hold a number further on
// (10.x.4a.test), they may take some for addresses.
func (p Policy) Patterns() []string {
	var patterns []string
	for _, n := range p.networks {
		if n.Addr().Is6() {
			patterns = append(patterns, patternsOfIPv6(n)...)
			continue
		}
		patterns = append(patterns, patternsOfIPv4(n)...)
		for _, e := range embeddings {
			bytes := e.network.Addr().As16()
			copy(bytes[e.at:], n.Addr().AsSlice())
			patterns = append(patterns, patternsOfIPv6(netip.PrefixFrom(netip.AddrFrom16(bytes), 8*e.at+n.Bits()))...)
		}
	}
	for _, name := range p.names {
		patterns = append(patterns, name, name+".", "*."+name, "*."+name+".")
	}
	return patterns
}

// patternsOfIPv4 writes the octets of which a part is free one by one. Where
// whole octets are, it asks for a digit behind a dot, so that few names match.
func patternsOfIPv4(n netip.Prefix) []string {
	octets, whole := n.Addr().As4(), n.Bits()/8
	heads := []string{""}
	for i := range whole {
		heads[0] += fmt.Sprintf("%d.", octets[i])
	}
	if rest := n.Bits() % 8; rest > 0 {
		fixed := heads[0]
		heads = nil
		for i := range 1 << (8 - rest) {
			heads = append(heads, fmt.Sprintf("%s%d.", fixed, int(octets[whole])+i))
		}
		whole++
	}
	var patterns []string
	for _, head := range heads {
		if whole == 4 {
			patterns = append(patterns, strings.TrimSuffix(head, "."))
			continue
		}
		for digit := range 10 {
			patterns = append(patterns, fmt.Sprintf("%s%s%d*", head, strings.Repeat("*.", min(1, 3-whole)), digit))
		}
	}
	return patterns
}

// patternsOfIPv6 covers each way in which the shortest form may leave out a run
// of zeros.
func patternsOfIPv6(n netip.Prefix) []string {
	if rest := n.Bits() % 4; rest > 0 { // to whole digits
		var patterns []string
		for i := range 1 << (4 - rest) {
			bytes := n.Addr().As16()
			bytes[n.Bits()/8] |= byte(i << (4 - n.Bits()/4%2*4))
			patterns = append(patterns, patternsOfIPv6(netip.PrefixFrom(netip.AddrFrom16(bytes), n.Bits()-rest+4))...)
		}
		return patterns
	}
	bytes := n.Addr().As16()
	var groups []string
	for i := range n.Bits() / 16 {
		groups = append(groups, fmt.Sprintf("%x", int(bytes[2*i])<<8|int(bytes[2*i+1])))
	}
	if len(groups) == 8 {
		return []string{hexText(n.Addr())}
	}
	open := ""
	if free := n.Bits() % 16 / 4; free > 0 {
		i := 2 * len(groups)
		if open = fmt.Sprintf("%x", (int(bytes[i])<<8|int(bytes[i+1]))>>(16-4*free)); open == "0" {
			open = ""
		}
		open += strings.Repeat("?", 4-free)
	}
	return spellings(groups, open)
}

// spellings are the patterns for addresses that begin with the groups, the next
// one being open, or free when open is empty.
func spellings(groups []string, open string) []string {
	tail := "*"
	if open != "" && len(groups) == 7 {
		tail = open
	} else if open != "" {
		tail = open + ":*"
	}
	patterns := []string{strings.Join(append(groups[:len(groups):len(groups)], tail), ":")}
	if len(groups) == 0 && open == "" {
		return []string{"*:*"}
	}
	for from := range groups {
		to := from
		for to < len(groups) && groups[to] == "0" {
			to++
		}
		if to == from || (from > 0 && groups[from-1] == "0") {
			continue
		}
		head := strings.Join(groups[:from], ":") + "::"
		switch {
		case to < len(groups):
			patterns = append(patterns, head+strings.Join(append(groups[to:len(groups):len(groups)], tail), ":"))
		case strings.Trim(open, "?") == "":
			patterns = append(patterns, head+"*")
		default:
			patterns = append(patterns, head+tail)
		}
	}
	return patterns
}

// hexText is the shortest form, which Chromium writes without dots.
func hexText(a netip.Addr) string {
	if !a.Is4In6() {
		return a.String()
	}
	bytes := a.As16()
	return fmt.Sprintf("::ffff:%x:%x", int(bytes[12])<<8|int(bytes[13]), int(bytes[14])<<8|int(bytes[15]))
}

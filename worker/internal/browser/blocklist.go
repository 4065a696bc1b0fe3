package browser

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/netrules"
)

// listedHost is a host in a block list.
var listedHost = lazy.Regexp(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)

// BlockList has the hosts of a filter list in EasyList format: those of rules for a host
// and its subdomains (||example.com^) without options, and of their exceptions
// (@@||example.com^). Other rules are ignored. Nil blocks nothing.
type BlockList struct {
	hosts, exceptions map[string]bool
}

// Hosts returns the number of blocked hosts.
func (l *BlockList) Hosts() int { return len(l.hosts) }

// ReadBlockList reads a list. Its errors name the line.
func ReadBlockList(r io.Reader) (*BlockList, error) {
	l := &BlockList{hosts: map[string]bool{}, exceptions: map[string]bool{}}
	lines := bufio.NewScanner(r)
	number := 0
	for lines.Scan() {
		number++
		if err := l.add(strings.TrimSpace(lines.Text())); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	if len(l.hosts) == 0 {
		return nil, fmt.Errorf("line %d: the list ends without a rule for a host, such as ||example.com^", number)
	}
	return l, nil
}

// add adds the rule of a line.
func (l *BlockList) add(line string) error {
	if !utf8.ValidString(line) || strings.ContainsRune(line, 0) {
		return errors.New("is not text in UTF-8")
	}
	rule, exception := strings.CutPrefix(line, "@@")
	host, found := strings.CutPrefix(rule, "||")
	host, complete := strings.CutSuffix(host, "^")
	if !found || !complete || strings.ContainsAny(host, "/*^$|?=&:#") {
		return nil // a comment, or a rule about more than a host
	}
	if host = strings.ToLower(host); !listedHost().MatchString(host) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil || ascii == "" {
			return fmt.Errorf("%.100q is not a host", host)
		}
		host = ascii
	}
	if exception {
		l.exceptions[host] = true
	} else {
		l.hosts[host] = true
	}
	return nil
}

// blocks reports whether the list blocks requests to a URL.
func (l *BlockList) blocks(address string) bool {
	if l == nil {
		return false
	}
	match := false
	for name := netrules.HostOf(address); name != ""; _, name, _ = strings.Cut(name, ".") {
		if l.exceptions[name] {
			return false
		}
		match = match || l.hosts[name]
	}
	return match
}

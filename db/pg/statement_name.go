package pg

import "strings"

// maxStatementName is the maximum length of the name of a statement.
const maxStatementName = 120

// statementName returns a name for a statement that contains no values: what it
// writes, such as "INSERT license_slots UPDATE license_org", or else what it reads
// first, such as "SELECT profiles". The name of any other statement is its first word.
func statementName(statement string) string {
	var n statementNamer
	n.read(statement)
	name := strings.Join(n.writes, " ")
	if name == "" {
		name = n.reads
	}
	if name == "" {
		name = n.first
	}
	return name[:min(len(name), maxStatementName)]
}

// statementNamer reads the words of a statement.
type statementNamer struct {
	first  string   // the first word
	writes []string // such as "UPDATE license_org", in order of appearance
	reads  string   // such as "SELECT profiles"

	ctes    map[string]bool // names of WITH queries
	selects []int           // depths of the open SELECTs
	depth   int             // of parentheses
	last    [2]string       // the words before the current one; "(" and so on for symbols
}

func (n *statementNamer) read(statement string) {
	for i := 0; i < len(statement); {
		c := statement[i]
		switch {
		case isWordByte(c):
			end := i
			for end < len(statement) && (isWordByte(statement[end]) || statement[end] == '.') {
				end++
			}
			n.word(statement[i:end])
			i = end
			continue
		case c == '\'':
			i += skipQuoted(statement[i:])
			n.shift("'")
			continue
		case strings.HasPrefix(statement[i:], "--"):
			length := strings.IndexByte(statement[i:], '\n')
			if length < 0 {
				return
			}
			i += length
			continue
		case c == '(':
			if n.last[0] == "AS" {
				n.addCTE()
			}
			n.depth++
			n.shift("(")
		case c == ')':
			n.depth--
			for len(n.selects) > 0 && n.selects[len(n.selects)-1] > n.depth {
				n.selects = n.selects[:len(n.selects)-1]
			}
			n.shift(")")
		case c > ' ':
			n.shift(string(c))
		}
		i++
	}
}

// addCTE notes the name before AS.
func (n *statementNamer) addCTE() {
	if n.ctes == nil {
		n.ctes = map[string]bool{}
	}
	n.ctes[n.last[1]] = true
}

func (n *statementNamer) word(text string) {
	upper := strings.ToUpper(text)
	if n.first == "" {
		n.first = upper
	}
	switch before, earlier := n.last[0], n.last[1]; {
	case upper == "SELECT":
		n.selects = append(n.selects, n.depth)
	case before == "INTO" && earlier == "INSERT":
		n.writes = append(n.writes, "INSERT "+text)
	case before == "FROM" && earlier == "DELETE":
		n.writes = append(n.writes, "DELETE "+text)
	case before == "UPDATE" && earlier != "FOR" && earlier != "DO" && earlier != "KEY" && upper != "SET":
		n.writes = append(n.writes, "UPDATE "+text)
	case before == "FROM" && earlier != "DISTINCT" && n.reads == "" && !n.ctes[text] && n.isFromOfSelect():
		n.reads = "SELECT " + text
	}
	if upper == "MATERIALIZED" || upper == "NOT" && n.last[0] == "AS" {
		return // AS NOT MATERIALIZED (
	}
	switch upper {
	case "AS", "INTO", "FROM", "INSERT", "DELETE", "UPDATE", "FOR", "DO", "KEY", "DISTINCT":
		text = upper
	}
	n.shift(text)
}

// isFromOfSelect reports whether FROM belongs to a SELECT, unlike the one of
// extract(epoch FROM x).
func (n *statementNamer) isFromOfSelect() bool {
	return len(n.selects) > 0 && n.selects[len(n.selects)-1] == n.depth
}

func (n *statementNamer) shift(word string) { n.last[0], n.last[1] = word, n.last[0] }

// skipQuoted returns the length of the string literal at the start of text. A doubled
// quote ends one literal and starts the next.
func skipQuoted(text string) int {
	end := strings.IndexByte(text[1:], '\'')
	if end < 0 {
		return len(text)
	}
	return end + 2
}

func isWordByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

package env

import (
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"strings"
)

// Table returns Markdown tables of the variables of T with the columns Variable, Default
// and Meaning, one with a heading for each group.
func Table[T any]() string {
	var b strings.Builder
	group, header := "", "| Variable | Default | Meaning |\n|---|---|---|\n"
	for _, v := range variables(reflect.TypeFor[T]()) {
		if v.group != group {
			group = v.group
			fmt.Fprintf(&b, "\n### %s\n\n%s", group, header)
		} else if b.Len() == 0 {
			b.WriteString(header)
		}
		fallback := v.defaultText()
		if v.defaultValue() != "" {
			fallback = "`" + escapeCell(v.defaultValue()) + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.name, fallback, escapeCell(v.doc()))
	}
	return b.String()
}

// Usage returns the variables of T as plain text for --help, with a heading for each group.
func Usage[T any]() string {
	var b strings.Builder
	var rows [][2]string
	group := ""
	for _, v := range variables(reflect.TypeFor[T]()) {
		if v.group != group {
			WriteRows(&b, rows)
			group, rows = v.group, nil
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		doc := v.doc()
		if note := v.defaultText(); note != "" {
			doc = strings.TrimSpace(doc + " (" + note + ")")
		}
		rows = append(rows, [2]string{v.name, doc})
	}
	WriteRows(&b, rows)
	return b.String()
}

// helpWidth is the length of the lines of the help, in bytes.
const helpWidth = 100

// WriteRows writes names with their texts as two columns for --help. Long texts continue on
// lines of their own.
func WriteRows(b *strings.Builder, rows [][2]string) {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	margin := strings.Repeat(" ", 3+width)
	for _, row := range rows {
		line, words := fmt.Sprintf("  %-*s ", width, row[0]), 0
		for _, word := range strings.Fields(row[1]) {
			if words > 0 && len(line)+1+len(word) > helpWidth {
				b.WriteString(line + "\n")
				line, words = margin, 0
			}
			line, words = line+" "+word, words+1
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// defaultText describes the default value; empty if there is none.
func (v variable) defaultText() string {
	switch {
	case v.defaultValue() != "":
		return "default " + v.defaultValue()
	case v.required():
		return "required"
	}
	return ""
}

// escapeCell escapes text for a cell of a Markdown table.
func escapeCell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}

// Redacted returns the configuration as log attributes with the names of the
// variables. Secrets are "set" or "not set"; URLs have no password.
func Redacted[T any](config T) []slog.Attr {
	root := reflect.ValueOf(config)
	var attrs []slog.Attr
	for _, v := range variables(root.Type()) {
		value := root.FieldByIndex(v.index)
		switch {
		case v.secret() && value.IsZero():
			attrs = append(attrs, slog.String(v.name, "not set"))
		case v.secret():
			attrs = append(attrs, slog.String(v.name, "set"))
		default:
			attrs = append(attrs, slog.Any(v.name, redactPassword(value.Interface())))
		}
	}
	return attrs
}

func redactPassword(value any) any {
	switch u := value.(type) {
	case url.URL:
		return u.Redacted()
	case *url.URL:
		if u != nil {
			return u.Redacted()
		}
	case string:
		if parsed, err := url.Parse(u); err == nil && parsed.User != nil {
			return parsed.Redacted()
		}
	}
	return value
}

package har

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/lazy"
)

const (
	mask        = "***"
	shortSecret = 4 // shorter secrets are replaced only where they are a whole value
)

// Redactor replaces secrets. Without a secret, it replaces what the names of parameters say.
type Redactor struct {
	values []string
	forms  []string          // the texts that have them, the longest first
	text   *strings.Replacer // nil without secrets
}

// secrets returns the redactor of the present secrets. Only the writer calls it.
func (c *collector) secrets() *Redactor {
	if c.Secrets == nil {
		return &Redactor{}
	}
	if values := c.Secrets(); c.redactor == nil || !slices.Equal(values, c.redactor.values) {
		c.redactor = NewRedactor(values)
	}
	return c.redactor
}

// NewRedactor returns the redactor of secrets.
func NewRedactor(values []string) *Redactor {
	r := &Redactor{values: values}
	for _, v := range values {
		if len(v) >= shortSecret {
			r.forms = append(r.forms, encodings(v)...)
		}
	}
	if len(r.forms) == 0 {
		return r
	}
	slices.SortFunc(r.forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // the replacer prefers the first
	var pairs []string
	for _, form := range r.forms {
		pairs = append(pairs, form, mask)
	}
	r.text = strings.NewReplacer(pairs...)
	return r
}

// Values returns the secrets.
func (r *Redactor) Values() []string { return r.values }

// Forms returns the texts that Text replaces.
func (r *Redactor) Forms() []string { return r.forms }

// encodings returns the texts with which pages and sites transmit a value.
func encodings(value string) []string {
	quoted, _ := json.Marshal(value) // a string cannot fail
	query := url.QueryEscape(value)
	return []string{
		value, query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(value), html.EscapeString(value),
		strings.Trim(string(quoted), `"`), strings.ReplaceAll(strings.ReplaceAll(value, `\`, `\\`), `"`, `\"`), base64.StdEncoding.EncodeToString([]byte(value)),
	}
}

// Text returns a text without the secrets.
func (r *Redactor) Text(text string) string {
	if r == nil || r.text == nil {
		return text
	}
	return r.text.Replace(text)
}

// data replaces secrets in a text, or in what a text in base64 contains.
func (r *Redactor) data(text string, encoded bool) string {
	if r == nil || r.text == nil || !encoded {
		return r.Text(text)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return r.Text(text)
	}
	if clean := r.text.Replace(string(raw)); clean != string(raw) {
		return base64.StdEncoding.EncodeToString([]byte(clean))
	}
	return text
}

// headers returns headers without the secrets, also those in addresses.
func (r *Redactor) headers(list []Field) []Field {
	for i, f := range list {
		switch strings.ToLower(f.Name) {
		case "location": // a replay needs the fragment
			list[i].Value = CleanURL(f.Value, r)
			if _, fragment, ok := strings.Cut(f.Value, "#"); ok {
				list[i].Value += "#" + r.form(r.Text(fragment))
			}
		case "content-location", "referer":
			list[i].Value = CleanURL(f.Value, r)
		default:
			list[i].Value = r.Text(f.Value)
		}
	}
	return list
}

// posted returns the body of a request without secrets, and its parameters if it is a form.
func (r *Redactor) posted(text, mimeType string) (string, []Field) {
	text = r.Text(text)
	kind, _, _ := strings.Cut(strings.ToLower(mimeType), ";")
	switch {
	case kind == "application/x-www-form-urlencoded":
		text = r.form(text)
		return text, parameters(text)
	case strings.Contains(kind, "json"), strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["): // sendBeacon sends it as a text
		text = jsonMember().ReplaceAllStringFunc(text, func(member string) string {
			parts := jsonMember().FindStringSubmatch(member)
			if r.hides(parts[2], parts[3]+parts[4]) {
				return parts[1] + `"` + mask + `"`
			}
			return member
		})
	case kind == "multipart/form-data":
		text = formPart().ReplaceAllStringFunc(text, func(part string) string {
			parts := formPart().FindStringSubmatch(part)
			if r.hides(parts[2], parts[3]) {
				return parts[1] + mask
			}
			return part
		})
	}
	return text, nil
}

var (
	sensitiveName = lazy.Regexp(`(?i)passw|pass$|passphrase|passcode|pwd|secret|token$|api[-_]?key|^t?otp$`)
	jsonMember    = lazy.Regexp(`("((?:[^"\\]|\\.)*)"\s*:\s*)(?:"((?:[^"\\]|\\.)*)"|(-?[0-9][0-9.eE+-]*))`)
	formPart      = lazy.Regexp(`(?i)(content-disposition:[^\r\n]*\bname="([^"]*)"[^\r\n]*\r?\n(?:[^\r\n]+\r?\n)*\r?\n)([^\r\n]*)`)
)

// hides reports whether the value of a parameter is replaced.
func (r *Redactor) hides(name, value string) bool {
	return value != "" && (sensitiveName().MatchString(name) || r != nil && slices.Contains(r.values, value))
}

// form replaces values of a form or of a query.
func (r *Redactor) form(text string) string {
	pairs := strings.Split(text, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		plainName, err := url.QueryUnescape(name)
		plain, failed := url.QueryUnescape(value)
		if err == nil && failed == nil && r.hides(plainName, plain) {
			pairs[i] = name + "=" + mask
		}
	}
	return strings.Join(pairs, "&")
}

// parameters returns the parameters of a form or of a query in their order.
func parameters(text string) []Field {
	list := []Field{}
	for pair := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if pair == "" {
			continue
		}
		f := Field{Name: name, Value: value}
		if plain, err := url.QueryUnescape(name); err == nil {
			f.Name = plain
		}
		if plain, err := url.QueryUnescape(value); err == nil {
			f.Value = plain
		}
		list = append(list, f)
	}
	return list
}

// CleanURL returns a URL without user, fragment and secrets. The redactor may be nil.
func CleanURL(address string, r *Redactor) string {
	address, _, _ = strings.Cut(address, "#")
	scheme, rest, ok := strings.Cut(address, "//")
	if end := strings.IndexAny(rest+"/", "/?"); ok && (scheme == "" || strings.HasSuffix(scheme, ":")) {
		address = scheme + "//" + rest[strings.LastIndex(rest[:end], "@")+1:]
	}
	path, query, ok := strings.Cut(address, "?")
	if ok {
		return r.Text(path) + "?" + r.form(r.Text(query))
	}
	return r.Text(path)
}

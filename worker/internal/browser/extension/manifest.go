package extension

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/lazy"
)

const (
	manifestFile    = "manifest.json"
	maxManifest     = 1 << 20 // bytes
	manifestVersion = 3
	maxShownName    = 256 // characters
)

var (
	versionPattern = lazy.Regexp(`^\d{1,9}(\.\d{1,9}){0,3}$`)
	localePattern  = lazy.Regexp(`^[A-Za-z]{2,3}([_-][A-Za-z0-9]{1,8})*$`)
	messagePattern = lazy.Regexp(`^__MSG_([A-Za-z0-9_@]+)__$`)
)

// manifest is a parsed manifest. Its members keep what is not read.
type manifest map[string]json.RawMessage

// text returns a member that is a text; "" for another.
func (m manifest) text(name string) (text string) {
	_ = json.Unmarshal(m[name], &text) // "" for another type
	return text
}

// parseManifest parses and checks a manifest. Errors: Validation.
func parseManifest(raw []byte) (manifest, error) {
	var m manifest
	if err := json.Unmarshal(bytes.TrimPrefix(raw, []byte("\ufeff")), &m); err != nil || m == nil {
		return nil, invalidPackage("manifest.json is not a valid JSON object; comments are not supported")
	}
	var details []fault.Detail
	refuse := func(field, message string, received any) {
		details = append(details, fault.Detail{Field: "body." + field, Code: fault.Custom, Message: message, Received: received})
	}
	var version int
	if json.Unmarshal(m["manifest_version"], &version) != nil || version != manifestVersion {
		refuse("manifest_version", "must be 3: this worker loads no extensions of another manifest version", version)
	}
	if strings.TrimSpace(m.text("name")) == "" {
		refuse("name", "is required in manifest.json", nil)
	}
	if !versionPattern().MatchString(m.text("version")) {
		refuse("version", "must be one to four numbers with dots between them, such as 1.4.0", m.text("version"))
	}
	for i, permission := range m.permissions() {
		if permission == "nativeMessaging" {
			refuse(fmt.Sprintf("permissions[%d]", i), "is not allowed: it starts programs outside the browser", permission)
		}
	}
	if len(details) > 0 {
		return nil, fault.Invalid(details...)
	}
	return m, nil
}

// permissions returns the permissions, the optional ones last.
func (m manifest) permissions() []string {
	all := []string{}
	for _, name := range []string{"permissions", "optional_permissions"} {
		var list []any
		_ = json.Unmarshal(m[name], &list) // Chromium refuses another type
		for _, entry := range list {
			permission, _ := entry.(string) // some are objects
			all = append(all, permission)
		}
	}
	return all
}

// setKey gives the manifest a key, which determines the id of the extension: that of its
// package or of the manifest, otherwise one that is derived from the id. Without a key,
// Chromium derives the id from the path. It returns Chromium's id.
func (m manifest) setKey(key []byte, id string) (chromiumID string, err error) {
	if key == nil && m["key"] != nil {
		if key, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(m.text("key")), "")); err != nil || len(key) == 0 {
			return "", fault.Field("body.key", "must be a public key in base64")
		}
	}
	if key == nil {
		key = []byte(id)
	}
	m["key"], _ = json.Marshal(base64.StdEncoding.EncodeToString(key)) // a text
	return chromiumIDOf(key), nil
}

// chromiumIDOf returns the id of a key: the first half of its hash, in the letters a to p.
func chromiumIDOf(key []byte) string {
	sum := sha256.Sum256(key)
	id := make([]byte, 0, 2*crxIDLength)
	for _, b := range sum[:crxIDLength] {
		id = append(id, 'a'+b>>4, 'a'+b&15)
	}
	return string(id)
}

// shownName returns the name, translated to the default language.
func (m manifest) shownName(files fs.FS) string {
	name := m.text("name")
	if match := messagePattern().FindStringSubmatch(name); match != nil {
		if text := m.message(files, match[1]); text != "" {
			name = text
		}
	}
	if utf8.RuneCountInString(name) > maxShownName {
		name = string([]rune(name)[:maxShownName])
	}
	return strings.ReplaceAll(name, "\x00", "")
}

// message returns a text of the default language; "" without one.
func (m manifest) message(files fs.FS, name string) string {
	locale := m.text("default_locale")
	if !localePattern().MatchString(locale) {
		return ""
	}
	raw, err := fs.ReadFile(files, "_locales/"+locale+"/messages.json")
	if err != nil || len(raw) > maxManifest {
		return ""
	}
	var texts map[string]struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(raw, &texts)
	for key, text := range texts {
		if strings.EqualFold(key, name) {
			return strings.TrimSpace(text.Message)
		}
	}
	return ""
}

func invalidPackage(format string, args ...any) error {
	return fault.Field("body", fmt.Sprintf(format, args...))
}

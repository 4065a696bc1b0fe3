package profile

import (
	"encoding/json"
	"fmt"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
)

// passwordChange is the effect of a patch on the proxy password.
type passwordChange struct {
	forget bool
	set    *string // the new password; nil for none
}

// applyPatch returns the fields after a JSON merge patch (RFC 7396) that passed the
// document's validation: absent fields stay unchanged, null clears, proxy is merged
// field by field, lists and maps are replaced.
func applyPatch(fields Fields, patch json.RawMessage) (Fields, passwordChange, error) {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil {
		return Fields{}, passwordChange{}, fmt.Errorf("read the patch: %w", err)
	}
	document, err := members(fields)
	if err != nil {
		return Fields{}, passwordChange{}, err
	}
	var password passwordChange
	if proxy, ok := changes["proxy"]; ok {
		if changes["proxy"], password, err = patchProxy(fields.Proxy, proxy); err != nil {
			return Fields{}, passwordChange{}, err
		}
	}
	merge(document, changes)
	var patched Fields
	if err := decode(document, &patched); err != nil {
		return Fields{}, passwordChange{}, err
	}
	return patched, password, nil
}

// patchProxy returns the proxy's document after the patch. A password belongs to its
// server: it is cleared if the server changes or is removed, unless the patch contains
// a new one.
func patchProxy(old *settings.Proxy, patch json.RawMessage) (json.RawMessage, passwordChange, error) {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil {
		return nil, passwordChange{}, fmt.Errorf("read the patch of the proxy: %w", err)
	}
	if changes == nil { // null
		return patch, passwordChange{forget: true}, nil
	}
	var password passwordChange
	if value, ok := changes["password"]; ok {
		password.forget = true
		if err := json.Unmarshal(value, &password.set); err != nil {
			return nil, passwordChange{}, fmt.Errorf("read the patch of the proxy password: %w", err)
		}
		delete(changes, "password")
	}
	document, err := members(old)
	if err != nil {
		return nil, passwordChange{}, err
	}
	merge(document, changes)
	var proxy settings.Proxy
	if err := decode(document, &proxy); err != nil {
		return nil, passwordChange{}, err
	}
	if proxy.Server == "" {
		return nil, passwordChange{}, fault.Invalid(fault.Detail{
			Field: "proxy.server", Code: fault.Required, Message: "is required: the profile has no proxy"})
	}
	if old == nil || old.Server != proxy.Server {
		password.forget = true
	}
	merged, err := json.Marshal(proxy)
	return merged, password, err
}

// merge applies the changes to the members; null removes a member.
func merge(document, changes map[string]json.RawMessage) {
	for name, value := range changes {
		if string(value) == "null" {
			delete(document, name)
		} else {
			document[name] = value
		}
	}
}

// members returns the members of v, which is an object or nil.
func members(v any) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	document := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if document == nil {
		document = map[string]json.RawMessage{}
	}
	return document, nil
}

func decode(document map[string]json.RawMessage, into any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("apply the patch: %w", err)
	}
	return nil
}

package browser

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// localState is the file with the settings that all profiles of a data directory
// share.
const localState = "Local State"

// connectionLimit is Chromium's limit of connections without a proxy, for
// requests and for WebSockets each. Through a proxy the default is half, in
// earlier versions 32.
const connectionLimit = 256

// writeLocalState allows as many connections through the proxy as without one, and turns off DNS over
// HTTPS: Chromium connects to such a resolver without the proxy. Headless shells have no such settings.
func (b *Browser) writeLocalState() error {
	if b.spec.ProxyServer == "" {
		return nil
	}
	kept, err := b.dataDir.ReadFile(localState)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = b.dataDir.WriteFile(localState, withProxySettings(kept), 0o600)
	}
	if err == nil && b.uid >= 0 {
		err = b.dataDir.Lchown(localState, b.uid, b.uid)
	}
	if err != nil {
		return fmt.Errorf("write settings of the browser: %w", err)
	}
	return nil
}

// withProxySettings changes the contents of a Local State file as writeLocalState says.
func withProxySettings(state []byte) []byte {
	type fields map[string]json.RawMessage
	read := func(raw []byte) fields {
		found := fields{}
		if json.Unmarshal(raw, &found) != nil || found == nil {
			return fields{} // Chromium ignores invalid content too
		}
		return found
	}
	write := func(f fields) []byte {
		raw, _ := json.Marshal(f) // of values that were read
		return raw
	}
	all := read(state)
	network := read(all["net"])
	for _, name := range []string{"max_connections_per_proxy", "max_connections_per_proxy_for_websocket"} {
		network[name] = fmt.Append(nil, connectionLimit)
	}
	all["net"] = write(network)
	all["dns_over_https"] = json.RawMessage(`{"mode":"off"}`)
	return write(all)
}

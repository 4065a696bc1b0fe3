package webdriver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

const chromeOptions = "goog:chromeOptions"

// readChromeOptions reads goog:chromeOptions. Switches become those of the launch,
// which has its own rules for them. The client chooses neither the program nor the
// browser that chromedriver attaches to.
func (n *newSession) readChromeOptions(raw json.RawMessage) (details []fault.Detail) {
	options := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &options) != nil {
		return []fault.Detail{invalidDetail(chromeOptions, "must be an object")}
	}
	forward := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		value, field := options[name], chromeOptions+"."+name
		switch name {
		case "args":
			details = append(details, n.readArgs(value)...)
		case "extensions": // clients send the empty list
			var files []json.RawMessage
			if json.Unmarshal(value, &files) != nil || len(files) > 0 {
				details = append(details, fault.Detail{Field: field, Code: fault.Custom, Message: "is not supported: store the extension with POST /extensions and list its id in " + ownOptions + ".browser.extensions"})
			}
		case "w3c":
			if string(value) != "true" {
				details = append(details, invalidDetail(field, "must be true"))
			}
		case "perfLoggingPrefs", "windowTypes":
			forward[name] = value
		case "binary", "debuggerAddress":
			details = append(details, fault.Detail{Field: field, Code: fault.Custom, Message: "must not be set: the worker starts the browser. Choose its version with browserVersion"})
		default:
			details = append(details, fault.Detail{Field: field, Code: fault.UnrecognizedKey, Message: "is not supported; see " + ownOptions + " for the settings of a launch"})
		}
	}
	if len(forward) > 0 {
		n.forward[chromeOptions] = forward
	}
	return details
}

// readArgs reads the switches. Only a few clients know the settings of a launch, so
// --headless sets browser.headless.
func (n *newSession) readArgs(raw json.RawMessage) []fault.Detail {
	const field = chromeOptions + ".args"
	var args []string
	if json.Unmarshal(raw, &args) != nil {
		return []fault.Detail{invalidDetail(field, "must be an array of strings")}
	}
	browser, ok := n.member("browser")
	if !ok {
		return nil // the launch is refused
	}
	var details []fault.Detail
	switches := []string{}
	for i, arg := range args {
		if !strings.HasPrefix(arg, "--") { // chromedriver adds it too
			arg = "--" + strings.TrimLeft(arg, "-")
		}
		name, mode, _ := strings.Cut(arg, "=")
		switch {
		case name == "--headless" && (mode == "" || mode == "new"):
			if string(browser["headless"]) == "false" {
				details = append(details, conflict(fmt.Sprintf("%s[%d]", field, i), "false in "+ownOptions+".browser.headless"))
			}
			browser["headless"] = json.RawMessage("true")
		case launch.IsNeedlessArg(arg):
		default:
			switches = append(switches, arg)
		}
	}
	if len(switches) > 0 {
		if browser["args"] != nil {
			details = append(details, conflict(field, ownOptions+".browser.args"))
		}
		browser["args"], _ = json.Marshal(switches) // of strings
	}
	if len(browser) > 0 {
		n.set("browser", browser)
	}
	return details
}

// proxyCapability is the proxy capability (WebDriver, 7.1).
type proxyCapability struct {
	ProxyType    string   `json:"proxyType"`
	HTTPProxy    string   `json:"httpProxy"`
	SSLProxy     string   `json:"sslProxy"`
	SocksProxy   string   `json:"socksProxy"`
	SocksVersion int      `json:"socksVersion"`
	NoProxy      []string `json:"noProxy"`
}

// readProxy converts the proxy capability to proxyOverride.
func (n *newSession) readProxy(raw json.RawMessage) []fault.Detail {
	var proxy proxyCapability
	if json.Unmarshal(raw, &proxy) != nil {
		return []fault.Detail{invalidDetail("proxy", "must be an object as in WebDriver: proxyType, httpProxy, sslProxy, socksProxy, socksVersion and noProxy")}
	}
	if _, both := n.body["proxyOverride"]; both {
		return []fault.Detail{conflict("proxy", ownOptions+".proxyOverride")}
	}
	var server string
	switch strings.ToLower(proxy.ProxyType) {
	case "direct":
		n.set("proxyOverride", nil)
		return nil
	case "manual":
		switch {
		case proxy.SocksProxy != "" && proxy.HTTPProxy+proxy.SSLProxy == "" && proxy.SocksVersion == 5:
			server = "socks5://" + proxy.SocksProxy
		case proxy.SocksProxy == "" && proxy.HTTPProxy != "" && (proxy.SSLProxy == "" || proxy.SSLProxy == proxy.HTTPProxy):
			server = "http://" + proxy.HTTPProxy
		default:
			return []fault.Detail{invalidDetail("proxy", "must have either httpProxy, and the same value in sslProxy if that is set, or socksProxy with socksVersion 5")}
		}
	default:
		return []fault.Detail{invalidDetail("proxy.proxyType", "must be manual or direct; "+ownOptions+".proxyOverride also takes credentials")}
	}
	override := map[string]string{"server": server}
	if len(proxy.NoProxy) > 0 {
		override["bypass"] = strings.Join(proxy.NoProxy, ",")
	}
	n.set("proxyOverride", override)
	return nil
}

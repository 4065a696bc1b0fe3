package switches

import (
	"strings"
	"testing"
)

func TestRefusedNamesWhatUndoesTheLauncher(t *testing.T) {
	for _, arg := range []string{
		"--remote-debugging-port=9222", "--REMOTE-debugging-port=1", "--remote-allow-origins=*", "--user-data-dir=/tmp",
		"--disk-cache-dir=/etc", "--log-file=/x", "--proxy-server=http://a:1", "--no-proxy-server", "--proxy-pac-url=x",
		"--host-resolver-rules=MAP * 1.2.3.4", "--no-sandbox", "--disable-setuid-sandbox", "--no-zygote",
		"--single-process", "--load-extension=/x", "--disable-extensions-except=/x", "--renderer-cmd-prefix=sh",
		"--gpu-launcher=sh", "--enable-blink-features=MojoJS", "--disable-features=NetworkServiceSandbox",
		"--component-updater=url-source=http://a", "--headless=new", "--type=renderer", "--svc-marker=x",
		"not-a-switch", "--", "--=x", "-v", "--a\nb", "--name=\x00", "--" + strings.Repeat("a", MaxLength),
	} {
		if reason, refused := Refused(arg); !refused || reason == "" {
			t.Errorf("Refused(%.60q) = %q, %v; want a reason", arg, reason, refused)
		}
	}
}

func TestRefusedLetsHarmlessSwitchesPass(t *testing.T) {
	for _, arg := range []string{
		"--force-color-profile=srgb", "--disable-gpu", "--mute-audio", "--disable-extensions", "--lang=de",
		"--disable-web-security", "--enable-features=OverlayScrollbar", "--js-flags=--max-old-space-size=512",
		"--kiosk", "--window-size=1,2",
	} {
		if reason, refused := Refused(arg); refused {
			t.Errorf("Refused(%q) = %q; want it allowed", arg, reason)
		}
	}
}

func TestReasonsStayShort(t *testing.T) {
	reason, _ := Refused("--no-sandbox" + strings.Repeat("x", 3000))
	if len(reason) > 200 {
		t.Errorf("a reason of %d bytes", len(reason))
	}
}

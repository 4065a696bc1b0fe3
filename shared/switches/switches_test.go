package switches

import (
	"strings"
	"testing"
)

func TestRefused_ReportsDangerousSwitches(t *testing.T) {
	for _, arg := range []string{
		"--remote-debugging-port=9222", "--remote-debugging-port", "--Remote-Debugging-Port=1", "--remote-debugging-address=0.0.0.0",
		"--remote-debugging-pipe", "--remote-debugging-socket-name=x", "--remote-allow-origins=*", "--custom-devtools-frontend=http://x",
		"--user-data-dir=/", "--profile-directory=X", "--disk-cache-dir=/x", "--media-cache-dir=/x", "--crash-dumps-dir=/x",
		"--homedir=/", "--log-file=/x", "--log-net-log=/x", "--ssl-key-log-file=/x", "--trace-startup-file=/x", "--screenshot=/x",
		"--print-to-pdf=/x", "--dump-dom", "--allow-file-access-from-files", "--use-file-for-fake-video-capture=/x",
		"--diagnostics", "--diagnostics-recovery", "--diagnostics-format=log", "--Diagnostics=1",
		"--variations-server-url=http://x", "--variations-insecure-server-url=http://x", "--variations-seed-version=1", "--fake-variations-channel=beta",
		"--accept-empty-variations-seed-signature", "--force-fieldtrials=A/B/", "--force-fieldtrial-params=A.B:c/d", "--force-variation-ids=1",
		"--force-disable-variation-ids=1", "--field-trial-handle=1", "--enable-field-trial-config",
		"--device-management-url=http://x", "--gaia-url=http://x", "--gaia-config=/x", "--apps-gallery-update-url=http://x", "--translate-script-url=http://x",
		"--optimization-guide-service-get-models-url=http://x", "--metrics-upload-server-url=http://x", "--sync-url=http://x",
		"--enable-chrome-browser-cloud-management", "--breakpad-dump-location=/x", "--webrtc-event-logging=/x", "--dump-browser-histograms=/x",
		"--proxy-server=http://x", "--no-proxy-server", "--proxy-pac-url=http://x", "--proxy-auto-detect", "--proxy-bypass-list=*",
		"--host-resolver-rules=MAP * x", "--host-rules=MAP * x",
		"--no-sandbox", "--disable-setuid-sandbox", "--disable-gpu-sandbox", "--disable-namespace-sandbox", "--disable-seccomp-filter-sandbox",
		"--no-zygote", "--no-unsandboxed-zygote", "--no-zygote-sandbox", "--single-process", "--single-argument", "--in-process-gpu",
		"--allow-sandbox-debugging", "--service-sandbox-type=none", "--type=renderer", "--mojo-platform-channel-handle=1",
		"--disable-features=NetworkServiceSandbox", "--enable-features=A,MojoJS", "--enable-blink-features=MojoJS", "--enable-features=NetworkServiceInProcess2",
		"--load-extension=/x", "--load-component-extension=/x", "--disable-extensions-except=/x", "--load-and-launch-app=/x", "--app-id=x",
		"--app=http://x", "--pack-extension=/x", "--renderer-cmd-prefix=sh", "--utility-cmd-prefix=sh", "--gpu-launcher=sh",
		"--browser-subprocess-path=/bin/sh", "--ppapi-plugin-launcher=sh", "--register-pepper-plugins=/x", "--renderer-startup-dialog",
		"--headless", "--headless=old", "--ozone-platform=headless", "--display=:0", "--no-startup-window", "--version", "--help", "--h",
		"", "-", "--", "-no-sandbox", "no-sandbox", "--no sandbox", "--=x", "http://x/", "--a=b\nc", "--a=\x00", "---no-sandbox", "--no_sandbox",
		"--user-agent=" + strings.Repeat("x", 5000),
		"--log-file=/x", "--component-updater=url-source=http://a", "--svc-marker=x", "-v", "--" + strings.Repeat("a", MaxLength),
	} {
		if reason, refused := Refused(arg); !refused || reason == "" {
			t.Errorf("Refused(%.60q) = %q, %v; want a reason", arg, reason, refused)
		}
	}
}

func TestRefused_AllowsHarmlessSwitches(t *testing.T) {
	for _, arg := range []string{
		"--user-agent=Mozilla/5.0 (X; Y) a=b", "--lang=de", "--window-size=800,600", "--disable-gpu", "--mute-audio", "--incognito",
		"--disable-field-trial-config", "--disable-component-update", "--disable-background-networking", "--metrics-recording-only",
		"--password-store=basic", "--disable-breakpad", "--enable-automation", "--export-tagged-pdf", "--disable-client-side-phishing-detection",
		"--disable-extensions", "--autoplay-policy=no-user-gesture-required",
		"--enable-features=WebGPU", "--disable-features=Translate", "--js-flags=--expose-gc", "--use-fake-ui-for-media-stream",
		"--use-fake-device-for-media-stream", "--disable-web-security", "--force-color-profile=srgb", "--use-gl=angle",
		"--disable-dev-shm-usage", "--blink-settings=imagesEnabled=false", "--kiosk", "--disable-popup-blocking",
		"--unsafely-treat-insecure-origin-as-secure=http://x", "--enable-unsafe-swiftshader", "--hide-scrollbars",
	} {
		if reason, refused := Refused(arg); refused {
			t.Errorf("Refused(%q) = %q; want it allowed", arg, reason)
		}
	}
}

func TestRefused_ReasonsAreShort(t *testing.T) {
	reason, _ := Refused("--no-sandbox" + strings.Repeat("x", 3000))
	if len(reason) > 200 {
		t.Errorf("a reason of %d bytes", len(reason))
	}
}

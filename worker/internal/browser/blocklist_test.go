package browser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/browser"
)

func readList(t *testing.T, text string) *browser.BlockList {
	t.Helper()
	l, err := browser.ReadBlockList(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestReadBlockList_NamesLine(t *testing.T) {
	for text, want := range map[string]string{
		"||a.test^\n||not a host^\n":               `line 2: "not a host" is not a host`,
		"||a.test^\n||a\xff.test^\n":               "line 2: is not text in UTF-8",
		"||a.test^\n" + strings.Repeat("x", 1<<17): "line 2: bufio.Scanner: token too long",
		"<!doctype html>\n<p>Not found":            "line 2: the list ends without a rule for a host",
		"":                                         "line 0: the list ends without a rule for a host",
	} {
		if _, err := browser.ReadBlockList(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	l := readList(t, "[Adblock Plus 2.0]\n! comment\n\n||a.test^\n||B.test^\r\n@@||c.a.test^\n||d.test^$third-party\n||e.test/path^\n||bücher.test^\n##.ad\n/banner/*\n||*.f.test^\n")
	if l.Hosts() != 3 {
		t.Errorf("%d hosts are blocked, want 3", l.Hosts())
	}
}

// TestGuard_BlocksAds requests listed and other hosts in each way that the guard can see.
func TestGuard_BlocksAds(t *testing.T) {
	w := newWall(t, nil, nil)
	if err := w.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.blockList = readList(t, "||ads.allowed.localhost^\n@@||good.ads.allowed.localhost^\n")
	w.start(t, &netrules.Rules{Block: []string{"ads"}}, nil)
	session := w.page(t)
	for host, want := range map[string]string{
		"ads.allowed": "denied denied denied", "x.ads.allowed": "denied denied denied",
		"good.ads.allowed": "ok ok ok", "badads.allowed": "ok ok ok",
	} {
		var got []string
		w.eval(t, session, fmt.Sprintf(`(async () => {
			const result = async (what) => { try { await what(); return "ok" } catch { return "denied" } };
			const element = (name, properties) => () => new Promise((ok, fail) => document.body.append(Object.assign(document.createElement(name), {onload: ok, onerror: fail}, properties)));
			return [
				await result(() => fetch(%[1]q)),
				await result(element("script", {src: %[1]q + "worker.js?to=/"})),
				await result(() => new Promise((ok, fail) => { const w = new Worker(URL.createObjectURL(new Blob(["fetch(" + JSON.stringify(%[1]q) + ").then(() => postMessage(1), () => postMessage(0))"]))); w.onmessage = ({data}) => data ? ok() : fail() })),
			];
		})()`, w.url(host, "/")), &got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", host, got, want)
		}
	}
	w.run(t, session, "document.body.append(Object.assign(document.createElement('iframe'), {src: "+quoted(w.url("frame.ads.allowed", "/"))+"}))")
	w.awaitDenied(t, "frame.ads.allowed")
	eventually(t, 5*time.Second, "the rule is named", func() bool { return strings.Contains(w.log.String(), `rule="block: ads"`) })
	if text := w.navigate(t, session, w.url("ads.allowed", "/")); text != "" {
		t.Errorf("a page of a listed host in a tab: %q", text)
	}
}

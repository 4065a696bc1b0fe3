package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// recordEvents records the events of a session, also of one that is still running.
func (r *testWorker) recordEvents(t *testing.T, site *recordedSite, end bool) filesOf {
	t.Helper()
	s := r.launchRecorded(t, site, true, `["events"]`)
	if end {
		r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
		r.awaitRecording(t, s)
	}
	return filesOf{r, t, "/sessions/" + s.Id.String(), nil}
}

// ticketOf returns the path and query of a new link to the player, relative to the session.
func (f filesOf) ticketOf() string {
	f.t.Helper()
	_, text := f.expect(200, "POST", "/recording/ticket", "", "X-API-Key", workerKey)
	got := decode[workerapi.RecordingTicketResponse](f.t, []byte(text)).Data
	address, err := url.Parse(got.Url)
	if err != nil || !strings.HasSuffix(address.Path, f.base+"/recording/player") || time.Until(got.ExpiresAt) > 15*time.Minute {
		f.t.Fatalf("got %+v: %v", got, err)
	}
	f.secrets = append(f.secrets, address.Query().Get("t"))
	return "/recording/player?" + address.RawQuery
}

// redeem opens a link and returns the cookie.
func (f filesOf) redeem(link string) []*http.Cookie {
	f.t.Helper()
	answer, _ := f.expect(303, "GET", link, "")
	if location := answer.Header.Get("Location"); location != "./player" {
		f.t.Errorf("redirected to %s", location)
	}
	return answer.Cookies()
}

// TestRecordingTicket_OpensOneRecordingOnce opens recordings with tickets and their
// cookies, and no other one by any id or path.
func TestRecordingTicket_OpensOneRecordingOnce(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newRecordedSite(t)
	subject, other, running := r.recordEvents(t, site, true), r.recordEvents(t, site, true), r.recordEvents(t, site, false)
	link := subject.ticketOf()
	subject.expect(303, "HEAD", link, "")
	subject.expect(303, "GET", link, "", "Sec-Purpose", "prefetch")
	if cookies := other.redeem(link); len(cookies) != 0 {
		t.Errorf("a ticket of another session sets %v", cookies)
	}
	cookies := subject.redeem(link)
	if len(cookies) != 1 || cookies[0].Name != "svc_recording" || cookies[0].Path != subject.base+"/recording" || !cookies[0].HttpOnly ||
		cookies[0].SameSite != http.SameSiteStrictMode || strings.Contains(link, cookies[0].Value) {
		t.Fatalf("got %v", cookies)
	}
	r.secrets = append(r.secrets, cookies[0].Value)
	if again := subject.redeem(link); len(again) != 0 {
		t.Errorf("a spent ticket sets %v", again)
	}
	cookie := []string{"Cookie", "svc_recording=" + cookies[0].Value}
	subject.expect(200, "GET", "/recording/player", "")
	subject.expect(200, "GET", "/recording/events", "", cookie...)
	subject.expect(404, "GET", "/recording", "", cookie...) // no video
	subject.expect(200, "GET", "/recording/events", "", append(cookie, "Cookie", cookie[1]+"; svc_console=invalid")...)
	for _, path := range []string{"", "/files", "/recording/ticket"} {
		method := http.MethodGet
		if path == "/recording/ticket" {
			method = http.MethodPost
		}
		subject.expect(401, method, path, "", cookie...)
	}
	other.expect(401, "GET", "/recording/events", "", cookie...)
	other.expect(401, "GET", "/recording", "", cookie...)
	for _, call := range r.cloud.Calls(cloudtest.Start) {
		reported := call.Start.Recording
		if reported == nil || reported.Video || !reported.Events || !strings.HasSuffix(reported.Url, "/sessions/"+call.SessionID.String()+"/recording/player") {
			t.Errorf("the start report contains the recording %+v", reported)
		}
	}
	token, _ := url.ParseQuery(strings.TrimPrefix(subject.ticketOf(), "/recording/player?"))
	for _, wrong := range []string{token.Get("t"), "", "x"} { // a ticket is no cookie
		subject.expect(401, "GET", "/recording/events", "", "Cookie", "svc_recording="+wrong)
	}
	id := strings.TrimPrefix(other.base, "/sessions/")
	for _, path := range []string{
		"/../" + id + "/recording/events", "/recording/../../" + id + "/recording/events", "%2F..%2F" + id + "/recording/events",
		"/recording/events/../../../" + id + "/recording/events",
	} {
		request, err := http.NewRequestWithContext(t.Context(), "GET", r.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.URL.Opaque = strings.TrimSuffix(r.url, "/")[len("http:"):] + subject.base + path
		request.Header.Set("Cookie", cookie[1])
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode < 400 {
			t.Errorf("%s: got %d", path, answer.StatusCode)
		}
	}
	running.redeem(running.ticketOf())
	subject.expect(401, "POST", "/recording/ticket", "")
	for status, session := range map[int]string{404: "0198a5c0-0000-7000-8000-000000000000", 400: "none"} {
		unknown := filesOf{r, t, "/sessions/" + session, nil}
		unknown.expect(status, "POST", "/recording/ticket", "", "X-API-Key", workerKey)
	}
	filesOf{r, t, "/sessions/none", nil}.expect(400, "GET", "/recording/player", "")
	answer, text := subject.expect(200, "GET", subject.ticketOf(), "", "Sec-Fetch-Site", "cross-site")
	if len(answer.Cookies()) != 1 || answer.Header.Get("Refresh") != "0; url=./player" {
		t.Errorf("a link from another site: %v %s", answer.Header, text)
	}
	if policy := answer.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("the policy is %s", policy)
	}
}

package recording_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/worker/internal/media/har"
	"github.com/browser-svc/svc/worker/internal/media/recording"
)

// openReplay records entries, and opens them for a replay. The first entry was requested last.
func openReplay(t *testing.T, entries ...har.Entry) *recording.Replay {
	t.Helper()
	r := newRecorded(t)
	r.subject.Video = false
	r.subject.Requests = func(_ context.Context, log *recording.RequestLog) error {
		for i, e := range entries {
			e.StartedDateTime, e.Response.Content.Size = time.Unix(int64(len(entries)-i), 0), int64(len(e.Response.Content.Text))
			log.Entry(e)
		}
		close(r.done)
		return nil
	}
	r.start(t)
	r.await(t)
	opened, err := r.OpenReplay(t.Context(), r.subject.Session)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func recordedEntry(method, address, posted, text string) har.Entry {
	e := har.Entry{Request: har.Request{Method: method, URL: address}, Response: har.Response{Status: 200, Content: har.Content{Text: text}}}
	if posted != "" {
		e.Request.PostData = &har.PostData{Text: posted}
	}
	return e
}

// take returns the text of the next response to a request; "none" without one.
func take(t *testing.T, r *recording.Replay, request recording.Request) string {
	t.Helper()
	read := r.Take(request)
	if read == nil {
		return "none"
	}
	answer, err := read(t.Context())
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReplay_FindsResponses(t *testing.T) {
	const site, form, multipart = "http://site.test", "application/x-www-form-urlencoded", "multipart/form-data; boundary="
	upload := func(boundary, city string) string {
		return strings.ReplaceAll("--B\r\nContent-Disposition: form-data; name=\"city\"\r\n\r\n"+city+"\r\n--B--", "B", boundary)
	}
	cached, unfinished := recordedEntry("GET", site+"/n", "", "of a cache"), recordedEntry("GET", site+"/n", "", "")
	cached.FromCache, unfinished.Response.Status = "memory", 0
	ofWorker := recordedEntry("GET", site+"/of-worker", "", "of a service worker")
	ofWorker.FromServiceWorker = true
	stored, repeated := recordedEntry("GET", site+"/stored", "", ""), recordedEntry("GET", site+"/stored", "", "stored")
	stored.Response.BodySize, repeated.FromServiceWorker = 6, true
	uploads := []har.Entry{recordedEntry("POST", site+"/upload", upload("x1", "Rome"), "Rome"), recordedEntry("POST", site+"/upload", upload("x2", "Oslo"), "Oslo")}
	uploads[0].Request.PostData.MimeType, uploads[1].Request.PostData.MimeType = multipart+"x1", multipart+"x2"
	r := openReplay(t, uploads[0], uploads[1],
		recordedEntry("GET", site+"/n", "", "two"), unfinished, cached, recordedEntry("GET", site+"/n", "", "one"), ofWorker, stored, repeated,
		recordedEntry("POST", site+"/form", "user=bob&password=***", "bob"), recordedEntry("POST", site+"/form", "user=ann&password=***", "ann"),
		recordedEntry("POST", site+"/one", "a", "the only one"), recordedEntry("GET", site+"/q?token=***&secret=***", "", "query"), recordedEntry("GET", site+"/filled?v=***", "", "filled"),
	)
	for i, c := range []struct {
		request recording.Request
		want    string
	}{
		{recording.Request{Method: "GET", URL: site + "/n#fragment", ID: "1"}, "one"},
		{recording.Request{Method: "GET", URL: site + "/n", ID: "1"}, "one"},
		{recording.Request{Method: "GET", URL: site + "/n"}, "two"}, // a redirect
		{recording.Request{Method: "GET", URL: site + "/n"}, "two"},
		{recording.Request{Method: "GET", URL: site + "/of-worker"}, "of a service worker"},
		{recording.Request{Method: "GET", URL: site + "/stored"}, "stored"},
		{recording.Request{Method: "HEAD", URL: site + "/n"}, "none"},
		{recording.Request{Method: "GET", URL: site + "/n?"}, "none"},
		{recording.Request{Method: "POST", URL: site + "/form", MimeType: form, Body: []byte("user=ann&password=1")}, "ann"},
		{recording.Request{Method: "POST", URL: site + "/form", MimeType: form, Body: []byte("user=bob&password=2")}, "bob"},
		{recording.Request{Method: "POST", URL: site + "/form", MimeType: form, Body: []byte("user=eve")}, "none"},
		{recording.Request{Method: "POST", URL: site + "/upload", MimeType: multipart + "x3", Body: []byte(upload("x3", "Oslo"))}, "Oslo"},
		{recording.Request{Method: "POST", URL: site + "/one", Body: []byte("b")}, "the only one"},
		{recording.Request{Method: "GET", URL: site + "/q?token=x&secret=1"}, "query"},
		{recording.Request{Method: "GET", URL: site + "/filled?v=planted"}, "none"},
		{recording.Request{Method: "GET", URL: site + "/filled?v=planted", Secrets: []string{"planted"}}, "filled"},
	} {
		if got := take(t, r, c.request); got != c.want {
			t.Errorf("%d: %s %s: got %q, want %q", i, c.request.Method, c.request.URL, got, c.want)
		}
	}
}

func TestReplay_NeedsRequests(t *testing.T) {
	r := newRecorded(t)
	r.subject.Video = false
	r.subject.Events = func(context.Context, func(recording.Event)) error { return nil }
	if _, err := r.OpenReplay(t.Context(), r.subject.Session); !errors.Is(err, recording.ErrNone) {
		t.Errorf("without a recording: %v", err)
	}
	close(r.done)
	r.start(t)
	r.await(t)
	if _, err := r.OpenReplay(t.Context(), r.subject.Session); !errors.Is(err, recording.ErrMissing) {
		t.Errorf("without requests: %v", err)
	}
}

// TestReplay_StopsWithCaller opens a recording for a caller that is gone.
func TestReplay_StopsWithCaller(t *testing.T) {
	r := newRecorded(t)
	r.subject.Video = false
	r.subject.Requests = func(_ context.Context, log *recording.RequestLog) error {
		for i := range 3 {
			log.Entry(recordedEntry("GET", fmt.Sprint("http://site.test/", i), "", "x"))
		}
		close(r.done)
		return nil
	}
	r.start(t)
	r.await(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.OpenReplay(ctx, r.subject.Session); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

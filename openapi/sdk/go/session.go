package svc

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// SessionInfo is what the worker knows about a session.
type SessionInfo = workerapi.BrowserSession

// LogEntry is a console message.
type LogEntry = workerapi.PageLogEntry

// File is a download or an upload.
type File = workerapi.LaunchFile

// Handover is the state of a browser that a person has.
type Handover = workerapi.Handover

// Session is a browser.
type Session struct {
	ID           string
	WebSocketURL string      // for CDP clients; it contains the control token. Empty after the end
	Info         SessionInfo // when the session was read

	api api
}

func (c *Client) session(info SessionInfo) *Session {
	s := &Session{ID: info.Id.String(), Info: info, api: c.api}
	if info.WebSocketDebuggerUrl != nil {
		s.WebSocketURL = *info.WebSocketDebuggerUrl
	}
	return s
}

// Read returns the present state of the session.
func (s *Session) Read(ctx context.Context) (SessionInfo, error) {
	var info SessionInfo
	err := s.api.call(ctx, http.MethodGet, "/sessions/"+s.ID, nil, &info)
	return info, err
}

// browser is the path of a route of the running browser.
func (s *Session) browser(path string) string { return "/browsers/" + s.Info.LaunchId.String() + path }

// LiveView returns the URL of a web page that shows the browser, and opens once. With readOnly, the page allows no input.
func (s *Session) LiveView(ctx context.Context, readOnly bool) (string, error) {
	if readOnly {
		var ticket workerapi.ViewTicket
		err := s.api.call(ctx, http.MethodPost, s.browser("/view-ticket"), workerapi.ViewTicketRequest{}, &ticket)
		return ticket.ViewUrl, err
	}
	info, err := s.Read(ctx)
	if err == nil && info.ViewUrl == nil {
		err = &Error{Status: http.StatusNotFound, Code: string(sharedapi.ErrorCodeRESOURCENOTFOUND), Message: "The session has ended."}
	}
	if err != nil {
		return "", err
	}
	return *info.ViewUrl, nil
}

// handoverWait is the time that a request for the state of a handover may take.
const handoverWait = 30 * time.Second

// WaitForHuman hands the browser to a person and waits until the person is done. Started gets the URL for the person.
// If the context ends first, the handover is canceled.
func (s *Session) WaitForHuman(ctx context.Context, reason string, timeout time.Duration, started func(viewURL string)) (Handover, error) {
	request := workerapi.StartHandoverRequest{Reason: reason}
	if seconds := int32(timeout / time.Second); seconds > 0 {
		request.TimeoutSeconds = &seconds
	}
	var open workerapi.StartedHandover
	if err := s.api.call(ctx, http.MethodPost, s.browser("/handover"), request, &open); err != nil {
		return Handover{}, err
	}
	if started != nil {
		started(open.ViewUrl)
	}
	for {
		var handover Handover
		path := s.browser("/handover?waitSeconds=" + strconv.Itoa(int(handoverWait/time.Second)))
		err := s.api.call(ctx, http.MethodGet, path, nil, &handover)
		if err != nil {
			cancel, stop := context.WithTimeout(context.WithoutCancel(ctx), handoverWait)
			defer stop()
			_ = s.api.call(cancel, http.MethodDelete, s.browser("/handover"), nil, nil) // otherwise it ends at its timeout
			return handover, cmp.Or(ctx.Err(), err)
		}
		if handover.Status != workerapi.HandoverStatusOpen {
			return handover, nil
		}
	}
}

// Logs returns the console messages of the pages: those that the worker has stored, or with follow also those to come,
// until the browser ends. The sequence ends after an error.
func (s *Session) Logs(ctx context.Context, follow bool) iter.Seq2[LogEntry, error] {
	return func(yield func(LogEntry, error) bool) {
		if follow {
			if err := s.followLogs(ctx, yield); err != nil {
				yield(LogEntry{}, err)
			}
			return
		}
		var log workerapi.PageLog
		if err := s.api.call(ctx, http.MethodGet, s.browser("/logs?limit=1000"), nil, &log); err != nil {
			yield(LogEntry{}, err)
			return
		}
		for _, entry := range log.Items {
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// followLogs reads the stream of server-sent events.
func (s *Session) followLogs(ctx context.Context, yield func(LogEntry, error) bool) error {
	answer, err := s.api.send(ctx, http.MethodGet, s.browser("/logs"), http.Header{"Accept": {"text/event-stream"}}, noBody)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	event := ""
	for lines := bufio.NewReader(answer.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the stream of the log was interrupted: %w", err)
		}
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
		switch {
		case name == "event":
			event = value
		case name == "data" && event == "entry":
			var entry LogEntry
			if err := json.Unmarshal([]byte(value), &entry); err != nil {
				return err
			}
			if !yield(entry, nil) {
				return nil
			}
		case name == "" && event == "end":
			return nil
		}
	}
}

func noBody() io.Reader { return http.NoBody }

// once returns the content of a request that cannot be repeated.
func once(content io.Reader) func() io.Reader {
	return func() io.Reader {
		body := content
		content = nil
		return body
	}
}

// Files lists the downloads of the browser and the uploads for it, the newest first.
func (s *Session) Files(ctx context.Context) ([]File, error) {
	return list[File](ctx, s.api, "/sessions/"+s.ID+"/files", url.Values{})
}

// OpenFile returns the content of a file, and follows a download that still runs. The caller closes it.
func (s *Session) OpenFile(ctx context.Context, id string) (io.ReadCloser, error) {
	answer, err := s.api.send(ctx, http.MethodGet, "/sessions/"+s.ID+"/files/"+url.PathEscape(id), http.Header{}, noBody)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Upload stores a file where the browser can read it, at the Path of the answer. Content is read once.
func (s *Session) Upload(ctx context.Context, name string, content io.Reader) (File, error) {
	var stored workerapi.LaunchFileResponse
	answer, err := s.api.send(ctx, http.MethodPut, s.browser("/files/"+url.PathEscape(name)),
		http.Header{"Content-Type": {"application/octet-stream"}}, once(content))
	if err != nil {
		return stored.Data, err
	}
	defer answer.Body.Close()
	err = json.NewDecoder(answer.Body).Decode(&stored)
	return stored.Data, err
}

// State returns the cookies and the storage of the browser, in Playwright's format, for BrowserSettings.State of a launch.
func (s *Session) State(ctx context.Context) (workerapi.StorageState, error) {
	var state workerapi.StorageState
	err := s.api.call(ctx, http.MethodGet, s.browser("/state"), nil, &state)
	return state, err
}

// HAR returns the requests of a recording as an HTTP archive, also of a running one. The caller closes it.
func (s *Session) HAR(ctx context.Context) (io.ReadCloser, error) { return s.recorded(ctx, "har") }

// Script returns a script that does again what was done, from a recorded trace, also of a running one. The language is one of
// playwright-ts, playwright-py and selenium-py. The caller closes it.
func (s *Session) Script(ctx context.Context, language string) (io.ReadCloser, error) {
	return s.recorded(ctx, "script?language="+url.QueryEscape(language))
}

func (s *Session) recorded(ctx context.Context, part string) (io.ReadCloser, error) {
	answer, err := s.api.send(ctx, http.MethodGet, "/sessions/"+s.ID+"/recording/"+part, http.Header{}, noBody)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Recording returns the URL of a web page that plays the recording after the end of the session, and opens once.
func (s *Session) Recording(ctx context.Context) (string, error) {
	ticket, err := s.recordingTicket(ctx)
	return ticket.Url, err
}

// Trace returns the URL of a web page that shows the trace after the end of the session, and opens once. It is empty without a trace.
func (s *Session) Trace(ctx context.Context) (string, error) {
	ticket, err := s.recordingTicket(ctx)
	if err != nil || ticket.ViewerUrl == nil {
		return "", err
	}
	return *ticket.ViewerUrl, nil
}

func (s *Session) recordingTicket(ctx context.Context) (ticket workerapi.RecordingTicket, err error) {
	err = s.api.call(ctx, http.MethodPost, "/sessions/"+s.ID+"/recording/ticket", nil, &ticket)
	return ticket, err
}

// End ends the browser, after its data is saved if the profile keeps it. Ending an ended session has no effect.
func (s *Session) End(ctx context.Context) (SessionInfo, error) {
	var info SessionInfo
	err := s.api.call(ctx, http.MethodDelete, "/sessions/"+s.ID, nil, &info)
	return info, err
}

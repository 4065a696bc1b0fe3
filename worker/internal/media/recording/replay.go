package recording

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/worker/internal/media/har"
)

// Replay answers requests with the responses of a recording. It has only their positions: each is read when it is needed.
type Replay struct {
	service *Service
	session uuid.UUID

	mu     sync.Mutex
	series map[string][]*series // by method and URL
}

// series are the responses to one request, in the order of their requests.
type series struct {
	posted    [sha256.Size]byte // of the text that was posted
	positions []position
	next      int
	latest    string // the latest request
}

// position is the place of an entry in HARName.
type position struct {
	start      time.Time
	offset     int64
	length     int
	ofBrowser  bool
	incomplete bool
}

// Request is a request to be answered.
type Request struct {
	ID          string // the same if it is repeated; "": unknown
	Method, URL string
	MimeType    string // of Body
	Body        []byte
	Secrets     []string // values that the browser was filled with
}

// OpenReplay returns a Replay of a recording, also of a running one, with what it has now. Errors: ErrNone, ErrMissing, ErrStore.
func (s *Service) OpenReplay(ctx context.Context, session uuid.UUID) (*Replay, error) {
	a, err := s.OpenHAR(ctx, session)
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.Close() }()
	r := &Replay{service: s, session: session, series: map[string][]*series{}}
	offset := int64(0)
	err = a.lines(func(raw []byte) error {
		var line harLine
		if err := json.Unmarshal(raw, &line); err != nil {
			return fmt.Errorf("%w: a request is damaged: %w", ErrStore, err)
		}
		if e := line.Entry; e != nil && e.HasAnswer() {
			r.add(e, position{e.StartedDateTime, offset, len(raw), e.IsOfBrowser(), e.IsIncomplete()})
		}
		offset += int64(len(raw))
		return ctx.Err()
	})
	for _, list := range r.series {
		for _, s := range list {
			s.sort()
		}
	}
	return r, err
}

func requestKey(method, address string) string { return method + " " + address }

func (r *Replay) add(e *har.Entry, p position) {
	key, sum := requestKey(e.Request.Method, e.Request.URL), sha256.Sum256([]byte(e.Request.Posted()))
	list := r.series[key]
	i := slices.IndexFunc(list, func(s *series) bool { return s.posted == sum })
	if i < 0 {
		i, list = len(list), append(list, &series{posted: sum})
		r.series[key] = list
	}
	list[i].positions = append(list[i].positions, p)
}

// sort puts the responses in order. Those of caches and service workers in the browser repeat others, or are made there
// again: they count only if the others have no body, as those that a service worker stores, or if there is no other.
func (s *series) sort() {
	has := func(ofBrowser bool) bool {
		return slices.ContainsFunc(s.positions, func(p position) bool { return p.ofBrowser == ofBrowser && !p.incomplete })
	}
	if ofBrowser := has(true) && !has(false); ofBrowser || has(false) {
		s.positions = slices.DeleteFunc(s.positions, func(p position) bool { return p.ofBrowser != ofBrowser })
	}
	slices.SortStableFunc(s.positions, func(a, b position) int { return a.start.Compare(b.start) })
}

// Take takes the next response to a request. It returns nil without one, and otherwise a function that reads it, as Answer of har.Entry does.
func (r *Replay) Take(request Request) func(context.Context) (*http.Response, error) {
	address, posted := har.Clean(request.URL, request.MimeType, request.Body, request.Secrets)
	sum := sha256.Sum256([]byte(posted))
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.series[requestKey(request.Method, address)]
	i := slices.IndexFunc(list, func(s *series) bool { return s.posted == sum })
	if i < 0 && len(list) == 1 {
		i = 0
	}
	if i < 0 {
		return nil
	}
	p := list[i].take(request.ID)
	return func(ctx context.Context) (*http.Response, error) { return r.read(ctx, p) }
}

// take returns the response to a request: that of the request before if it is the same.
func (s *series) take(request string) position {
	if request == "" || request != s.latest {
		s.latest, s.next = request, s.next+1
	}
	return s.positions[min(s.next, len(s.positions))-1]
}

func (r *Replay) read(ctx context.Context, p position) (*http.Response, error) {
	content, err := r.service.open(ctx, r.session, HARName, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	raw := make([]byte, p.length)
	if _, err = content.Seek(p.offset, io.SeekStart); err == nil {
		_, err = io.ReadFull(content, raw)
	}
	line := harLine{Entry: &har.Entry{}}
	if err == nil {
		err = json.Unmarshal(raw, &line)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: read a response: %w", ErrStore, err)
	}
	return line.Entry.Answer()
}

package trace

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // the names of resources, as in the format
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/worker/internal/media/har"
	"github.com/browser-svc/svc/worker/internal/media/script"
)

// The files of a trace until it is packed.
const (
	EventsName    = "trace.jsonl"
	NetworkName   = "trace.network.jsonl"
	ResourcesName = "trace.resources" // one after the other
	IndexName     = "trace.resources.jsonl"
	StepsName     = "trace.steps.jsonl" // for package script; it is not packed
)

// Names returns the names of the files.
func Names() []string { return []string{EventsName, NetworkName, ResourcesName, IndexName, StepsName} }

const (
	maxBytes   = 256 << 20 // of a trace
	maxParts   = 64        // that wait to be written
	flushEvery = time.Second
)

// resource is an entry of the index of resources.
type resource struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// object is a JSON object.
type object = map[string]any

// part is a line or a resource to write.
type part struct {
	file string // one of Names
	name string // of a resource
	data []byte
}

// Writer appends to the files of a trace. It is safe for concurrent use until Close.
type Writer struct {
	began time.Time
	parts chan part
	ended chan struct{} // closed when err is set
	steps atomic.Int64
	err   error

	mu      sync.Mutex
	secrets secrets
	known   secrets // of fields that are known to be for secrets; StepsName hides no others, because its fields are known
}

// NewWriter creates the files of a trace. It calls end, which must not block, when nothing more is stored: at the size limit or after
// an error. The caller must call Close.
func NewWriter(dir string, began time.Time, end func()) (*Writer, error) {
	return newWriter(dir, began, maxBytes, end)
}

func newWriter(dir string, began time.Time, limit int64, end func()) (*Writer, error) {
	w := &Writer{began: began, parts: make(chan part, maxParts), ended: make(chan struct{})}
	f := &traceFiles{limit: limit, end: end, now: func() float64 { return w.offset(time.Now()) }, buffers: map[string]*bufio.Writer{}, resources: map[string]bool{}}
	for _, name := range Names() {
		opened, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.files, f.buffers[name] = append(f.files, opened), bufio.NewWriter(opened)
	}
	go func() {
		defer close(w.ended)
		w.err = f.run(w.parts)
	}()
	return w, nil
}

// Close ends the trace. It returns the first error of all writes.
func (w *Writer) Close() error {
	close(w.parts)
	<-w.ended
	return w.err
}

// offset returns a time as in the format, in milliseconds.
func (w *Writer) offset(t time.Time) float64 {
	return max(float64(t.Sub(w.began).Microseconds())/1000, 0) + 1
}

// begin keeps the values that the worker has filled out of the lines that follow.
func (w *Writer) begin(filled func() []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets.filled, w.known.filled = filled, filled
}

// hide keeps the texts of an action, instead of its earlier ones, out of the lines that follow.
func (w *Writer) hide(action string, texts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets.set(action, texts)
}

// hideTyped keeps what was typed with an ended action out of the lines that follow, unless it is known not to be secret.
func (w *Writer) hideTyped(a *action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets.set(a.id, a.hidden(false, false))
	w.known.set(a.id, a.hidden(false, true))
}

// secretTexts returns what is kept out of the lines.
func (w *Writer) secretTexts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.secrets.texts()
}

// line appends a line to trace.trace.
func (w *Writer) line(event object) { w.write(EventsName, event) }

// write appends a line to a file.
func (w *Writer) write(file string, event any) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(event) != nil { // cannot fail: its values are texts, numbers and valid JSON
		return
	}
	w.mu.Lock()
	hidden := &w.secrets
	if file == StepsName {
		hidden = &w.known
	}
	line := hidden.remove(buffer.Bytes())
	w.mu.Unlock()
	w.parts <- part{file: file, data: line}
}

// add stores a resource and returns its name.
func (w *Writer) add(content []byte, extension string) (name string) {
	sum := sha1.Sum(content) //nolint:gosec // see above
	name = hex.EncodeToString(sum[:]) + extension
	w.parts <- part{file: ResourcesName, name: name, data: content}
	return name
}

// addRequest appends a request.
func (w *Writer) addRequest(e har.Entry) { w.write(NetworkName, w.request(e)) }

// traceFiles are the open files of a trace.
type traceFiles struct {
	limit     int64  // bytes that are left
	end       func() // called when nothing more is stored
	now       func() float64
	files     []*os.File
	buffers   map[string]*bufio.Writer
	resources map[string]bool
	truncated bool
	err       error
}

// run writes parts until there are no more. It returns the first error.
func (f *traceFiles) run(parts <-chan part) error {
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for {
		select {
		case p, open := <-parts:
			if !open {
				return f.close()
			}
			f.write(p)
		case <-flush.C: // for a worker that is killed
			f.flush()
		}
	}
}

// write writes a part while there is room.
func (f *traceFiles) write(p part) {
	if f.truncated || f.resources[p.name] {
		return
	}
	if f.limit -= int64(len(p.data)); f.limit < 0 {
		f.truncate()
		return
	}
	f.append(p.file, p.data)
	if p.name == "" {
		return
	}
	f.resources[p.name] = true
	entry, err := json.Marshal(resource{p.name, len(p.data)})
	f.fail(err)
	f.append(IndexName, append(entry, '\n'))
}

// truncate ends the trace with a mark.
func (f *traceFiles) truncate() {
	f.truncated = true
	f.end()
	for _, event := range []object{
		{"type": "before", "callId": "truncated", "startTime": f.now(), "title": "Truncated: the trace has reached its size limit", "class": "Trace", "method": "truncated", "params": object{}},
		{"type": "after", "callId": "truncated", "endTime": f.now()},
	} {
		line, err := json.Marshal(event)
		f.fail(err)
		f.append(EventsName, append(line, '\n'))
	}
	f.append(StepsName, []byte(`{"kind":"`+script.Missing+"\"}\n"))
}

func (f *traceFiles) append(file string, data []byte) {
	_, err := f.buffers[file].Write(data)
	f.fail(err)
}

func (f *traceFiles) flush() {
	for _, name := range Names() { // resources before their index, which never names what is not written
		f.fail(f.buffers[name].Flush())
	}
}

func (f *traceFiles) fail(err error) {
	if f.err == nil && err != nil {
		f.err = err
		f.end()
	}
}

func (f *traceFiles) close() error {
	if len(f.files) == len(Names()) {
		f.flush()
	}
	for _, opened := range f.files {
		f.fail(opened.Close())
	}
	return f.err
}

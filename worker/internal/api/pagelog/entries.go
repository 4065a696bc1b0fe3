package pagelog

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

// callFrame is a place in a script, with numbers that start at 0.
type callFrame struct {
	URL                      string
	LineNumber, ColumnNumber int
}

type stackTrace struct{ CallFrames []callFrame }

// setPlace sets the place of an entry to the first frame of a stack.
func (e *Entry) setPlace(stack *stackTrace) {
	if stack == nil || len(stack.CallFrames) == 0 {
		return
	}
	first := stack.CallFrames[0]
	e.URL, e.Line, e.Column = first.URL, first.LineNumber+1, first.ColumnNumber+1
}

// timeOf converts a time of CDP, in milliseconds since 1970.
func timeOf(ms float64) time.Time {
	if ms <= 0 || ms > math.MaxInt64/1e6 || math.IsNaN(ms) {
		return time.Now().UTC()
	}
	return time.UnixMicro(int64(ms * 1000)).UTC()
}

// entryOf converts an event; false if it is not for the log.
func entryOf(event cdp.Event) (Entry, bool) {
	switch event.Method {
	case "Runtime.consoleAPICalled":
		return consoleEntry(event.Params)
	case "Runtime.exceptionThrown":
		return exceptionEntry(event.Params)
	case "Log.entryAdded":
		return browserEntry(event.Params)
	}
	return Entry{}, false
}

var consoleLevels = map[string]Level{"debug": Debug, "warning": Warning, "error": Error, "assert": Error}

func consoleEntry(raw json.RawMessage) (Entry, bool) {
	var p struct {
		Type       string
		Args       []remoteObject
		Timestamp  float64
		StackTrace *stackTrace
	}
	if json.Unmarshal(raw, &p) != nil {
		return Entry{}, false
	}
	var texts []string
	for _, arg := range p.Args {
		texts = append(texts, arg.text())
	}
	e := Entry{At: timeOf(p.Timestamp), Kind: Console, Level: cmp.Or(consoleLevels[p.Type], Info), Text: strings.Join(texts, " ")}
	e.setPlace(p.StackTrace)
	return e, true
}

func exceptionEntry(raw json.RawMessage) (Entry, bool) {
	var p struct {
		Timestamp        float64
		ExceptionDetails struct {
			callFrame
			Text       string
			StackTrace *stackTrace
			Exception  *remoteObject
		}
	}
	if json.Unmarshal(raw, &p) != nil {
		return Entry{}, false
	}
	d := p.ExceptionDetails
	e := Entry{At: timeOf(p.Timestamp), Kind: Exception, Level: Error, Text: d.Text, URL: d.URL, Line: d.LineNumber + 1, Column: d.ColumnNumber + 1}
	if d.Exception != nil {
		e.Text += " " + d.Exception.text()
	}
	e.setPlace(d.StackTrace)
	return e, true
}

var browserLevels = map[string]Level{"verbose": Debug, "warning": Warning, "error": Error}

func browserEntry(raw json.RawMessage) (Entry, bool) {
	var p struct {
		Entry struct {
			Source, Level, Text, URL string
			Timestamp                float64
			LineNumber               *int
		}
	}
	if json.Unmarshal(raw, &p) != nil || p.Entry.Source == "worker" { // a worker's own session has its messages
		return Entry{}, false
	}
	e := Entry{At: timeOf(p.Entry.Timestamp), Kind: Browser, Level: cmp.Or(browserLevels[p.Entry.Level], Info), Text: p.Entry.Text, URL: p.Entry.URL}
	if p.Entry.Source == "network" {
		e.Kind = Request
	}
	if p.Entry.LineNumber != nil {
		e.Line = *p.Entry.LineNumber + 1
	}
	return e, true
}

package trace

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"

	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/media/interaction"
	"github.com/browser-svc/svc/worker/internal/media/script"
)

// maxSteps limits the steps of a trace, which are in memory while a script is made.
const maxSteps = 5000

// followSteps adds what is done in pages, by clients and persons, until ctx or its connection ends. Then the other connection
// ends too, and the trace begins again.
func (t *tracer) followSteps(ctx context.Context) {
	for errors.Is(t.watchSteps(ctx), cdp.ErrLagged) {
		t.w.addStep(script.Step{Kind: script.Missing})
	}
}

func (t *tracer) watchSteps(ctx context.Context) error {
	conn, err := t.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return interaction.WatchSteps(ctx, conn, rand.Text(), t.w.addStep)
}

// addStep appends a step, unless there are too many.
func (w *Writer) addStep(s script.Step) {
	switch count := w.steps.Add(1); {
	case count == maxSteps:
		s = script.Step{Kind: script.Missing}
	case count > maxSteps:
		return
	}
	w.write(StepsName, s)
}

// addDialog adds the answer of a client to a dialog.
func (t *tracer) addDialog(m message, target string) {
	s := script.Step{Tab: target}
	var answer struct{ Accept bool }
	switch m.Method {
	case "WebDriver.POST /alert/accept":
		s.Kind = script.Accept
	case "WebDriver.POST /alert/dismiss":
		s.Kind = script.Dismiss
	case "Page.handleJavaScriptDialog":
		_ = json.Unmarshal(m.Params, &answer) // dismissed otherwise
		if s.Kind = script.Dismiss; answer.Accept {
			s.Kind = script.Accept
		}
	default:
		return
	}
	t.w.addStep(s)
}

package browser

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestDelayedTask_StopPreventsRun(t *testing.T) {
	var task delayedTask
	task.start(time.Hour, func() { t.Error("the function ran") })
	for range 2 {
		if err := task.stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestDelayedTask_DoesNotStartAfterStop(t *testing.T) {
	var task delayedTask
	if err := task.stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	task.start(0, func() { t.Error("the function ran") })
	if err := task.stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDelayedTask_StopWaitsForEnd(t *testing.T) {
	var task delayedTask
	began, end, ended := make(chan struct{}), make(chan struct{}), false
	task.start(0, func() {
		close(began)
		<-end
		ended = true
	})
	<-began
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := task.stop(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("stop while the function runs: %v", err)
	}
	close(end)
	task.close()
	for range 2 {
		if err := task.stop(t.Context()); err != nil || !ended {
			t.Errorf("stop: %v, the function has ended: %v", err, ended)
		}
	}
}

package activity_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/session/activity"
)

// pair returns both ends of a TCP connection.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	far, err = net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err = listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func TestMeter_IsUsedByClientsOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(*activity.Meter)
		used bool
	}{
		"nothing":          {func(*activity.Meter) {}, false},
		"a passive client": {func(m *activity.Meter) { m.Count()() }, false},
		"a viewer":         {func(m *activity.Meter) { m.Use() }, true},
		"a connection":     {func(m *activity.Meter) { m.Watch(nil) }, true},
		"a request":        {func(m *activity.Meter) { m.Begin() }, true},
		"a call":           {func(m *activity.Meter) { m.Touch() }, true},
	} {
		m := activity.New(clock.NewFake(time.Now()))
		if tc.do(m); m.Used() != tc.used {
			t.Errorf("%s: used %t", name, m.Used())
		}
	}
}

func TestMeter_ReceivedBytesAreActivity(t *testing.T) {
	now := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	m := activity.New(now)
	near, far := pair(t)
	stop := m.Watch(near)
	if m.Clients() != 1 {
		t.Errorf("%d clients", m.Clients())
	}
	began := now.Now()
	now.Advance(time.Minute)
	if got := m.Last(); !got.Equal(began) {
		t.Errorf("got activity at %v without any bytes", got)
	}
	if _, err := far.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(near, make([]byte, 1)); err != nil { // until the byte has arrived
		t.Fatal(err)
	}
	if got := m.Last(); !got.Equal(now.Now()) {
		t.Errorf("a received byte was not counted as activity: last activity %v", got)
	}
	if _, err := near.Write([]byte("y")); err != nil {
		t.Fatal(err)
	}
	now.Advance(time.Minute)
	if got := m.Last(); !got.Equal(began.Add(time.Minute)) {
		t.Errorf("sent bytes were counted as activity at %v", got)
	}
	stop()
	if m.Clients() != 0 || !m.Last().Equal(now.Now()) {
		t.Errorf("got %d clients, last activity %v: the end of a connection", m.Clients(), m.Last())
	}
}

func TestMeter_CountedClientIsNotActivity(t *testing.T) {
	now := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	m := activity.New(now)
	began := now.Now()
	now.Advance(time.Minute)
	stop := m.Count()
	if m.Clients() != 1 || !m.Last().Equal(began) {
		t.Errorf("got %d clients, last activity %v: the beginning of a connection", m.Clients(), m.Last())
	}
	stop()
	if m.Clients() != 0 || !m.Last().Equal(began) {
		t.Errorf("got %d clients, last activity %v: the end of a connection", m.Clients(), m.Last())
	}
}

func TestMeter_TouchReportsActivity(t *testing.T) {
	now := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	m := activity.New(now)
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	defer m.Watch(near)()
	now.Advance(time.Minute)
	m.Touch()
	touched := now.Now()
	now.Advance(time.Minute)
	if got := m.Last(); !got.Equal(touched) {
		t.Errorf("got last activity %v", got)
	}
}

func TestMeter_RequestIsActivityUntilItsEnd(t *testing.T) {
	now := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	m := activity.New(now)
	end := m.Begin()
	now.Advance(time.Minute)
	if got := m.Last(); !got.Equal(now.Now()) {
		t.Errorf("during the request: last activity %v", got)
	}
	end()
	ended := now.Now()
	now.Advance(time.Minute)
	if got := m.Last(); !got.Equal(ended) || m.Clients() != 0 {
		t.Errorf("after the request: last activity %v, %d clients", got, m.Clients())
	}
}

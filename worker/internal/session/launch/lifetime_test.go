package launch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/activity"
)

// step is what happens to a session at a time after its start.
type step struct {
	after time.Duration
	do    func(t *testing.T, l *Lifetime)
}

func touch(_ *testing.T, l *Lifetime) { l.activity.Touch() }

func change(changes LimitChanges, kind fault.Kind, fields ...string) func(*testing.T, *Lifetime) {
	return func(t *testing.T, l *Lifetime) {
		t.Helper()
		err := l.change(changes)
		if len(fields) == 0 && err != nil || len(fields) > 0 && !fault.Is(err, kind) {
			t.Errorf("change %+v: %v", changes, err)
			return
		}
		var got []string
		if err != nil {
			for _, detail := range fault.From(err).Details {
				got = append(got, detail.Field)
			}
			if diff := cmp.Diff(fields, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		}
	}
}

func TestLifetime_EndsSession(t *testing.T) {
	const minute = time.Minute
	for _, tc := range []struct {
		name   string
		limits Limits
		steps  []step
		reason session.EndReason
		after  time.Duration
	}{
		{"idle", Limits{Idle: minute}, nil, session.Idle, minute},
		{"used once", Limits{Idle: minute}, []step{{30 * time.Second, touch}}, session.Idle, 90 * time.Second},
		{"a long request", Limits{Idle: minute}, []step{{0, func(_ *testing.T, l *Lifetime) {
			end := l.activity.Begin()
			time.AfterFunc(10*minute, end)
		}}}, session.Idle, 11 * minute},
		{"maximum", Limits{Max: minute, Idle: 2 * minute}, []step{{30 * time.Second, touch}}, session.MaxDuration, minute},
		{"never used", Limits{Connect: minute, Max: time.Hour}, nil, session.NeverConnected, minute},
		{"used in time", Limits{Connect: minute, Max: time.Hour}, []step{{30 * time.Second, touch}}, session.MaxDuration, time.Hour},
		{"only watched by the console", Limits{Connect: minute}, []step{{0, func(_ *testing.T, l *Lifetime) { l.activity.Count() }}}, session.NeverConnected, minute},
		{"viewed", Limits{Connect: minute, Idle: 2 * minute}, []step{{30 * time.Second, func(_ *testing.T, l *Lifetime) { l.activity.Use() }}}, session.Idle, 2 * minute},
		{"extended", Limits{Max: minute}, []step{{50 * time.Second, change(LimitChanges{Max: new(5 * minute)}, 0)}}, session.MaxDuration, 5 * minute},
		{"shortened", Limits{}, []step{{10 * time.Second, change(LimitChanges{Max: new(minute)}, 0)}}, session.MaxDuration, minute},
		{"idle time restarted", Limits{Idle: minute, Connect: time.Hour}, []step{{50 * time.Second, change(LimitChanges{Idle: new(minute)}, 0)}}, session.Idle, 110 * time.Second},
		{"limit removed", Limits{Idle: minute, Max: time.Hour}, []step{{50 * time.Second, change(LimitChanges{Idle: new(time.Duration(0))}, 0)}}, session.MaxDuration, time.Hour},
		{"refused limits", Limits{Max: 2 * minute}, []step{{minute, change(LimitChanges{Idle: new(minute), Max: new(minute), Connect: new(time.Second)}, fault.Validation, "maxDurationSeconds", "connectTimeoutSeconds")}},
			session.MaxDuration, 2 * minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := time.Now()
				l := newLifetime(clock.System{}, activity.New(clock.System{}), tc.limits)
				for _, s := range tc.steps {
					go func() {
						time.Sleep(s.after)
						s.do(t, l)
					}()
				}
				reason := l.await(nil, nil)
				if took := time.Since(started); reason != tc.reason || took != tc.after {
					t.Errorf("ended by %q after %s, want %q after %s", reason, took, tc.reason, tc.after)
				}
				if err := l.change(LimitChanges{Max: new(time.Hour)}); !fault.Is(err, fault.Conflict) {
					t.Errorf("a change after the end: %v", err)
				}
			})
		})
	}
}

func TestLifetime_WarnsOnceForEachEnd(t *testing.T) {
	const minute = time.Minute
	for _, tc := range []struct {
		name   string
		limits Limits
		steps  []step
		reason session.EndReason
		times  []time.Duration
	}{
		{"maximum", Limits{Max: 5 * minute, Idle: time.Hour}, nil, session.MaxDuration, []time.Duration{4 * minute}},
		{"a minute or less", Limits{Max: minute, Idle: 30 * time.Second}, []step{{20 * time.Second, touch}}, "", nil},
		{"extended before", Limits{Max: 5 * minute}, []step{{3 * minute, change(LimitChanges{Max: new(10 * minute)}, 0)}}, session.MaxDuration, []time.Duration{9 * minute}},
		{"extended after", Limits{Max: 5 * minute}, []step{{5*minute - time.Second, change(LimitChanges{Max: new(10 * minute)}, 0)}}, session.MaxDuration,
			[]time.Duration{4 * minute, 9 * minute}},
		{"shortened", Limits{}, []step{{3 * minute, change(LimitChanges{Max: new(3*minute + time.Second)}, 0)}}, session.MaxDuration, []time.Duration{3 * minute}},
		{"never used", Limits{Connect: 3 * minute}, nil, session.NeverConnected, []time.Duration{2 * minute}},
		{"idle twice", Limits{Idle: 2 * minute}, []step{{90 * time.Second, touch}}, session.Idle, []time.Duration{minute, 150 * time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := time.Now()
				l := newLifetime(clock.System{}, activity.New(clock.System{}), tc.limits)
				var times []time.Duration
				l.warn = func(end time.Time, reason session.EndReason) {
					times = append(times, time.Since(started))
					if now, _ := l.Expiry(); reason != tc.reason || !end.Equal(now) {
						t.Errorf("the session expires at %s because of %q, want %s because of %q", end, reason, now, tc.reason)
					}
				}
				for _, s := range tc.steps {
					go func() {
						time.Sleep(s.after)
						s.do(t, l)
					}()
				}
				l.await(nil, nil)
				if diff := cmp.Diff(tc.times, times); diff != "" {
					t.Errorf("times (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLifetime_OtherEndsRefuseChanges(t *testing.T) {
	exited, requests := make(chan struct{}), make(chan session.EndReason, 1)
	close(exited)
	requests <- session.Drain
	for want, await := range map[session.EndReason]func(*Lifetime) session.EndReason{
		"":            func(l *Lifetime) session.EndReason { return l.await(exited, nil) },
		session.Drain: func(l *Lifetime) session.EndReason { return l.await(nil, requests) },
	} {
		l := newLifetime(clock.System{}, activity.New(clock.System{}), Limits{})
		if got := await(l); got != want || !fault.Is(l.change(LimitChanges{}), fault.Conflict) {
			t.Errorf("got %q, want %q and no changes", got, want)
		}
	}
}

func TestLifetime_Expiry(t *testing.T) {
	now := clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	l := newLifetime(now, activity.New(now), Limits{Idle: time.Minute, Max: time.Hour, Connect: time.Second})
	assert := func(after time.Duration, want session.EndReason) {
		t.Helper()
		if end, reason := l.Expiry(); reason != want || !end.Equal(l.start.Add(after)) {
			t.Errorf("got %s at %v, want %s after %s", reason, end, want, after)
		}
	}
	assert(time.Second, session.NeverConnected)
	now.Advance(500 * time.Millisecond)
	l.activity.Touch()
	assert(time.Minute+500*time.Millisecond, session.Idle)
	now.Advance(time.Hour - time.Second)
	l.activity.Touch()
	assert(time.Hour, session.MaxDuration)
	var none *Lifetime
	if end, reason := none.Expiry(); !end.IsZero() || reason != "" || none.Limits() != (Limits{}) {
		t.Error("the nil lifetime has limits")
	}
}

func TestLimits_LaunchBeforeProfileBeforeWorker(t *testing.T) {
	s := &Service{Options: Options{LimitRules: LimitRules{Default: Limits{Idle: 1 * time.Second, Max: 2 * time.Second, Connect: 3 * time.Second}}}}
	none := new(int32(0))
	idleOf := func(seconds int32) Settings {
		return Settings{Settings: settings.Settings{IdleTimeoutSeconds: &seconds}}
	}
	seconds := func(idle, most, connect time.Duration) Limits {
		return Limits{idle * time.Second, most * time.Second, connect * time.Second}
	}
	for name, tc := range map[string]struct {
		request Request
		profile Settings
		want    Limits
	}{
		"worker":          {Request{}, Settings{}, seconds(1, 2, 3)},
		"WebDriver":       {Request{DefaultIdle: 4 * time.Second}, Settings{}, seconds(4, 2, 3)},
		"profile":         {Request{DefaultIdle: 4 * time.Second}, idleOf(5), seconds(5, 2, 3)},
		"launch":          {Request{Override: idleOf(6)}, Settings{Settings: settings.Settings{IdleTimeoutSeconds: new(int32(5)), MaxDurationSeconds: new(int32(7))}}, seconds(6, 7, 3)},
		"launch has none": {Request{Override: Settings{Settings: settings.Settings{IdleTimeoutSeconds: none, MaxDurationSeconds: none}, ConnectTimeoutSeconds: none}}, idleOf(5), Limits{}},
	} {
		if got := s.limits(tc.request, tc.request.Override.withDefaults(tc.profile)); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestLimitChanges_RefuseMoreThanHighest(t *testing.T) {
	highest := Limits{Idle: time.Minute, Max: time.Hour}
	changes := LimitChanges{Idle: new(61 * time.Second), Max: new(time.Duration(0)), Connect: new(time.Hour)}
	want := []fault.Detail{
		{Field: "browser.idleTimeoutSeconds", Code: fault.TooBig, Received: int64(61), Constraint: map[string]any{"min": 1, "max": int64(60)},
			Message: "must be from 1 to 60, also in the profile: this worker has a limit (IDLE_TIMEOUT)"},
		{Field: "browser.maxDurationSeconds", Code: fault.TooSmall, Received: int64(0), Constraint: map[string]any{"min": 1, "max": int64(3600)},
			Message: "must be from 1 to 3600, also in the profile: this worker has a limit (MAX_DURATION)"},
	}
	if diff := cmp.Diff(want, changes.check(highest, "browser.", alsoInProfile)); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	if details := (LimitChanges{Idle: new(time.Minute)}).check(highest, "", ""); len(details) > 0 {
		t.Errorf("the highest value is refused: %+v", details)
	}
}

package auth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
)

// caller returns the caller of the session.
func (f fixture) caller(t *testing.T, session auth.Session) auth.Caller {
	t.Helper()
	caller, err := f.Authenticate(t.Context(), session.Token)
	if err != nil {
		t.Fatal(err)
	}
	return caller
}

// presences returns the caller's sessions, oldest first.
func (f fixture) presences(t *testing.T, caller auth.Caller) []auth.SessionInfo {
	t.Helper()
	found, err := f.ListSessions(t.Context(), caller, page.Request{Page: 1, Limit: 100, SortBy: "createdAt"})
	if err != nil {
		t.Fatal(err)
	}
	return found.Items
}

func TestListSessions_ShowsClient(t *testing.T) {
	f := newFixture(t)
	began := f.clock.Now()
	first := f.signUp(t)
	eve := ada
	eve.Email = "eve@example.com"
	if _, err := f.SignUp(t.Context(), home, eve); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Hour)
	long := auth.Client{Address: "2001:db8::1", UserAgent: "\x01curl/8\xff" + strings.Repeat("é", 400)}
	second, err := f.SignIn(t.Context(), long, ada.Email, ada.Password)
	if err != nil {
		t.Fatal(err)
	}
	caller := f.caller(t, second)
	got := f.presences(t, caller)
	later := began.Add(time.Hour)
	want := []auth.SessionInfo{
		{CreatedAt: began, LastSeenAt: began, ExpiresAt: first.ExpiresAt, IPAddress: home.Address, UserAgent: home.UserAgent},
		{CreatedAt: later, LastSeenAt: later, ExpiresAt: second.ExpiresAt, IPAddress: "2001:db8::1", UserAgent: "curl/8" + strings.Repeat("é", 252), Current: true},
	}
	for i := range got {
		if id := got[i].ID.String(); id == second.Token || got[i].ID == uuid.Nil {
			t.Errorf("session %d has the id %s", i, id)
		}
		got[i].ID = uuid.Nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	f.clock.Advance(7*24*time.Hour - time.Hour)
	if got := f.presences(t, caller); len(got) != 1 || !got[0].Current {
		t.Errorf("after the first session ended: %+v", got)
	}
}

func TestListSessions_Pagination(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	for range 4 {
		f.clock.Advance(time.Minute)
		f.signIn(t)
	}
	caller := f.caller(t, session)
	for _, sortBy := range []string{"createdAt", "lastSeenAt", "expiresAt"} {
		found, err := f.ListSessions(t.Context(), caller, page.Request{Page: 2, Limit: 2, SortBy: sortBy, Desc: true})
		if err != nil || found.Total != 5 || len(found.Items) != 2 || !found.HasNext() {
			t.Fatalf("by %s: %+v, %v", sortBy, found, err)
		}
	}
	found, err := f.ListSessions(t.Context(), caller, page.Request{Page: 1, Limit: 1, SortBy: "lastSeenAt"})
	if err != nil || found.Items[0].Current {
		t.Errorf("first by lastSeenAt: got %+v, %v; want another session than the caller's", found.Items, err)
	}
}

func TestLastSeen_WrittenOncePerMinute(t *testing.T) {
	f := newFixture(t)
	session := f.signUp(t)
	began := f.clock.Now()
	for _, step := range []struct{ after, lastSeen time.Duration }{
		{time.Minute - time.Microsecond, 0}, {time.Microsecond, time.Minute}, {30 * time.Second, time.Minute}, {31 * time.Second, 121 * time.Second},
	} {
		f.clock.Advance(step.after)
		if got := f.presences(t, f.caller(t, session))[0].LastSeenAt.Sub(began); got != step.lastSeen {
			t.Errorf("after %v: last seen at %v, want %v", f.clock.Now().Sub(began), got, step.lastSeen)
		}
	}
}

func TestEndSession_OnlyByOwner(t *testing.T) {
	f := newFixture(t)
	first, second := f.signUp(t), f.signIn(t)
	eve := ada
	eve.Email = "eve@example.com"
	otherUser, err := f.SignUp(t.Context(), home, eve)
	if err != nil {
		t.Fatal(err)
	}
	id := f.caller(t, first).SessionID
	wantKind(t, f.EndSession(t.Context(), otherUser.User.ID, id), fault.NotFound)
	wantKind(t, f.EndSession(t.Context(), first.User.ID, uuid.New()), fault.NotFound)
	if err := f.EndSession(t.Context(), first.User.ID, id); err != nil {
		t.Fatal(err)
	}
	_, err = f.Authenticate(t.Context(), first.Token)
	wantKind(t, err, fault.Unauthenticated)
	wantKind(t, f.EndSession(t.Context(), first.User.ID, id), fault.NotFound)
	f.caller(t, second)
}

func TestSignOutEverywhere_EndsAllSessions(t *testing.T) {
	f := newFixture(t)
	sessions := []auth.Session{f.signUp(t), f.signIn(t), f.signIn(t)}
	eve := ada
	eve.Email = "eve@example.com"
	otherUser, err := f.SignUp(t.Context(), home, eve)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SignOutEverywhere(t.Context(), sessions[0].User.ID); err != nil {
		t.Fatal(err)
	}
	for _, session := range sessions {
		_, err := f.Authenticate(t.Context(), session.Token)
		wantKind(t, err, fault.Unauthenticated)
	}
	f.caller(t, otherUser)
}

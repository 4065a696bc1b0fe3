package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/session"
)

func TestOrganizationKey_IsNeverPrinted(t *testing.T) {
	const secret = "svc_abcdefghijklmnopqrstuvwxyz234567"
	key := session.NewOrganizationKey(secret)
	holder := struct {
		Key   session.OrganizationKey
		Point *session.OrganizationKey
		Whole session.Session
		inner session.Session
	}{key, &key, session.Session{OrganizationKey: key}, session.Session{OrganizationKey: key}}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("text", "key", key, "whole", holder)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("json", "key", key, "whole", holder)
	encoded, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	output := log.String() + string(encoded) + fmt.Sprint(key, holder, holder.Whole) + key.String() + fmt.Errorf("with %v", key).Error() //nolint:err113 // the test checks its text
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %v"} {
		output += fmt.Sprintf(verb, key) + fmt.Sprintf(verb, holder) + fmt.Sprintf(verb, &holder)
	}
	if strings.Contains(output, "abcdef") || strings.Contains(output, fmt.Sprintf("%x", secret[:8])) {
		t.Errorf("the output contains the key:\n%s", output)
	}
	if !strings.Contains(log.String(), "[organization key]") || !strings.Contains(string(encoded), `"Key":"[organization key]"`) {
		t.Errorf("the output does not contain the placeholder:\n%s%s", &log, encoded)
	}
	if key.Reveal() != secret {
		t.Error("Reveal does not return the key")
	}
}

func TestOrganizationKey_Equal(t *testing.T) {
	a, b := session.NewOrganizationKey("a"), session.NewOrganizationKey("b")
	if !a.Equal(session.NewOrganizationKey("a")) || a.Equal(b) || a.Equal(session.OrganizationKey{}) || !(session.OrganizationKey{}).IsZero() || a.IsZero() {
		t.Error("Equal is wrong")
	}
}

func TestStore_EndKeepsTrafficAndDropsKey(t *testing.T) {
	s := session.NewStore(clock.NewFake(start))
	entry := s.Add(session.Session{ID: uuid.New(), LaunchID: uuid.New(), OrganizationKey: session.NewOrganizationKey("a")})
	if entry.OrganizationKey.IsZero() {
		t.Error("the key was removed before the end")
	}
	s.End(entry.ID, session.End{At: start.Add(time.Second), Status: session.Killed, Traffic: &session.Traffic{Received: 1, Sent: 2}})
	got, _ := s.Get(entry.ID)
	if !got.OrganizationKey.IsZero() || got.Traffic == nil || *got.Traffic != (session.Traffic{Received: 1, Sent: 2}) {
		t.Errorf("ended as %+v", got)
	}
}

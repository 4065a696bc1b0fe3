package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestMailbox_FindsNewestToken(t *testing.T) {
	m := mailbox{t.TempDir()}
	for name, text := range map[string]string{
		"20260101T000000-a.eml": "From: svc\r\nTo: ada@example.com\r\n\r\nhttp://x/account/verify-email#token=old\r\n",
		"20260102T000000-b.eml": "From: svc\r\nTo: ada@example.com\r\n\r\nhttp://x/account/verify-email#token=new_-1\r\n",
		"20260103T000000-c.eml": "From: svc\r\nTo: ada@example.com\r\n\r\nhttp://x/account/reset-password#token=reset\r\n",
		"20260104T000000-d.eml": "From: svc\r\nTo: ada@example.com.org\r\n\r\nhttp://x/account/verify-email#token=other\r\n",
		".mail-123":             "From: svc\r\nTo: ada@example.com\r\n\r\nhttp://x/account/verify-email#token=half\r\n",
	} {
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if token, err := m.token(t.Context(), "ada@example.com", verifyPage); err != nil || token != "new_-1" {
		t.Errorf("the token is %q, %v", token, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if token, err := m.token(ctx, "charles@example.com", verifyPage); err == nil {
		t.Errorf("there is no mail to charles, but the token is %q", token)
	}
}

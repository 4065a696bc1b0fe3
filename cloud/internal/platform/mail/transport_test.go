package mail_test

import (
	"errors"
	"io"
	"log/slog"
	"mime"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/platform/mail"
)

func newMessage() mail.Message {
	return mail.Message{ID: uuid.Must(uuid.NewV7()), To: "ada@example.com", Subject: "Grüße", Text: "Zeile 1\nZeile 2 ü", CreatedAt: time.Now()}
}

func TestSMTP_TLSModeFromURL(t *testing.T) {
	starttls, implicit := serve(t, false), serve(t, true)
	for name, test := range map[string]struct {
		address string
		server  *server
		secure  bool
	}{
		"STARTTLS":               {"smtp://localhost:" + starttls.port, starttls, true},
		"STARTTLS, credentials":  {"smtp://robot:hunter2@localhost:" + starttls.port, starttls, true},
		"TLS":                    {"smtps://localhost:" + implicit.port, implicit, true},
		"TLS, credentials":       {"smtps://robot:hunter2@localhost:" + implicit.port, implicit, true},
		"nothing, when asked so": {"smtp://localhost:" + starttls.port + "?tls=none", starttls, false},
	} {
		before := len(test.server.received())
		if err := dialer(t, test.address, test.server).Deliver(t.Context(), newMessage()); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if mails := test.server.received(); len(mails) != before+1 || mails[before].secure != test.secure {
			t.Errorf("%s: got %d new mails, encrypted %v", name, len(mails)-before, mails[len(mails)-1].secure)
		}
	}
}

func TestSMTP_RefusesUntrustedServer(t *testing.T) {
	s := serve(t, false)
	for name, transport := range map[string]*mail.SMTP{
		"a certificate of another server": dialer(t, "smtp://robot:hunter2@localhost:"+s.port, &server{}),
		"a certificate for another name":  dialer(t, "smtp://robot:hunter2@127.0.0.1:"+s.port, s),
		"a wrong password":                dialer(t, "smtp://robot:wrong-one@localhost:"+s.port, s),
		"a server without STARTTLS":       dialer(t, "smtp://localhost:"+serveInClear(t, rejectsAllMail).port, s),
		"credentials without STARTTLS":    dialer(t, "smtp://robot:hunter2@localhost:"+serveInClear(t, rejectsAllMail).port, s),
	} {
		err := transport.Deliver(t.Context(), newMessage())
		if err == nil || errors.Is(err, mail.ErrPermanent) {
			t.Errorf("%s: %v, want a temporary failure", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "wrong-one")) {
			t.Errorf("%s: the error contains the password: %v", name, err)
		}
	}
	if mails := s.received(); len(mails) != 0 {
		t.Errorf("%d mails arrived", len(mails))
	}
}

func TestSMTP_IgnoresFailedQuit(t *testing.T) {
	s := serveInClear(t, closesOnQuit)
	if err := dialer(t, "smtp://localhost:"+s.port+"?tls=none", s).Deliver(t.Context(), newMessage()); err != nil {
		t.Errorf("the server accepted the mail, but Deliver failed: %v", err)
	}
	if n := len(s.received()); n != 1 {
		t.Errorf("%d mails arrived", n)
	}
}

func TestSMTP_ClassifiesErrors(t *testing.T) {
	s := serve(t, false)
	transport := dialer(t, "smtp://localhost:"+s.port, s)
	for code, permanent := range map[int]bool{421: false, 450: false, 550: true, 554: true} {
		s.refuse("ada@example.com", reply(code, "recipient"))
		if err := transport.Deliver(t.Context(), newMessage()); err == nil || errors.Is(err, mail.ErrPermanent) != permanent {
			t.Errorf("%d for the recipient: %v, want a permanent failure: %v", code, err, permanent)
		}
		s.refuse("ada@example.com", nil)
		s.content = reply(code, "content")
		if err := transport.Deliver(t.Context(), newMessage()); err == nil || errors.Is(err, mail.ErrPermanent) != permanent {
			t.Errorf("%d for the content: %v, want a permanent failure: %v", code, err, permanent)
		}
		s.content = nil
	}
}

func TestParseSMTP(t *testing.T) {
	for address, want := range map[string]mail.SMTP{
		"smtp://mail.example":                        {Host: "mail.example", Port: 587},
		"smtp://mail.example:2525/":                  {Host: "mail.example", Port: 2525},
		"smtp://robot:p%40ss@mail.example":           {Host: "mail.example", Port: 587, User: "robot", Secret: "p@ss"},
		"smtps://robot:pass@mail.example":            {Host: "mail.example", Port: 465, User: "robot", Secret: "pass", TLS: mail.Implicit},
		"smtp://mail.example?tls=none":               {Host: "mail.example", Port: 25, TLS: mail.NoTLS},
		"smtp://[2001:db8::1]:1025?tls=none":         {Host: "2001:db8::1", Port: 1025, TLS: mail.NoTLS},
		"":                                           {},
		"mail.example:25":                            {},
		"http://robot:hunter2@mail.example":          {},
		"smtp://robot:hunter2@mail.example?tls=none": {},
		"smtp://robot:hunter2@mail.example?tls=no":   {},
		"smtp://robot:hunter2@mail.example:0":        {},
		"smtp://robot:hunter2@mail.example:http":     {},
		"smtp://robot:hunter2@mail.example/path":     {},
		"smtps://robot:hunter2@mail.example?tls=x":   {},
	} {
		got, err := mail.ParseSMTP(address, sender)
		if want.Host == "" {
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v, want an error without the password", address, err)
			}
			continue
		}
		if want.From = sender; err != nil || *got != want {
			t.Errorf("%s: %+v, %v, want %+v", address, got, err, want)
		}
	}
	if _, err := mail.ParseSMTP("smtp://mail.example", "nobody"); err == nil {
		t.Error("a sender without an address was accepted")
	}
}

func TestDirectory_WritesOneFilePerMail(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mail")
	log := &logs{}
	d := &mail.Directory{Path: dir, From: sender, Logger: slog.New(slog.NewTextHandler(log, nil))}
	m := newMessage()
	for range 2 { // a repeated attempt replaces the file
		if err := d.Deliver(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	path := filepath.Join(dir, files[0].Name())
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got, err := netmail.ReadMessage(file)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(got.Body)
	subject, _ := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	if subject != m.Subject || got.Header.Get("To") != m.To || string(body) != "Zeile 1\r\nZeile 2 ü\r\n" {
		t.Errorf("subject %q to %q: %q", subject, got.Header.Get("To"), body)
	}
	if text := log.text(); !strings.Contains(text, path) || strings.Contains(text, "Zeile") {
		t.Errorf("the log contains no file name, or contains the text: %s", text)
	}
}
